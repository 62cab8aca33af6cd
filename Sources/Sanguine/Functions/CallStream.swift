import Foundation
import SanguineModel
import Synchronization

/// One reader of a call's answer while it is generated.
///
/// Nothing is read ahead: bytes are taken from the connection when a part is requested and none is
/// left. After a broken connection, a new one with the same key continues after the last part; the
/// call itself continues in the meantime. ``CallEventReader`` assembles the parts,
/// ``CallRetryState`` decides.
///
/// Invariants:
///
/// 1. At most one connection, and one reading task.
/// 2. The balance receives the call's end once from here, or the fact that it no longer has a
///    reader.
/// 3. The call is open until ``resultRead(as:)`` records that the app has read its end.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during a call.
final class CallStream: Sendable {
    /// The source of the answer.
    enum Source: Sendable {
        /// The server.
        case server
        /// A call that this process sends in one piece.
        case inProgress(CallInProgress)
    }

    fileprivate enum Connection: Sendable {
        case events(TransportStream)
        case whole(Data, Epoch?)
    }

    private struct Guarded {
        var reader = CallEventReader()
        var attempts: CallRetryState
        var connection: Connection?
        /// The first connection, made before the first read.
        var opening: OneShot<Connection>?
        var isOpening = false
        var isReading = false
        var isDetached = false
        var outcome: Result<Data, SanguineError>?

        /// Whether the balance relies on a reader, and would not notice its end.
        var countsOnReader: Bool { outcome == nil && !isDetached && !isOpening }
    }

    let sending: CallRequest
    let caller: FunctionCaller
    private let source: Source
    private let guarded: Mutex<Guarded>

    var key: String { sending.key }

    init(_ sending: CallRequest, _ source: Source, _ caller: FunctionCaller) {
        self.sending = sending
        self.source = source
        self.caller = caller
        // A call that is only looked up has been sent.
        let attempts = CallRetryState(mayHaveHappened: sending.body == nil)
        guarded = Mutex(Guarded(attempts: attempts))
    }

    deinit {
        switch source {
        case .server: if guarded.withLock({ $0.countsOnReader }) { detach() }
        case .inProgress(let callInProgress): caller.left(callInProgress)
        }
    }

    /// Sends the call at once, whether or not anything reads it.
    ///
    /// ``FunctionCaller/opens(_:)`` must have been called before.
    func open() {
        let opening = OneShot<Connection>()
        guarded.withLock { ($0.opening, $0.isOpening) = (opening, true) }
        Task { [weak self, sending, caller] in
            // Stored before it is sent: from here on a crash does not lose the hold.
            if sending.exchange != nil { caller.messages?.persist() }
            caller.balance.persist()
            defer { caller.opened(sending.key) }
            do throws(SanguineError) {
                opening.resolve(.success(try await Self.connect(sending, caller, after: nil)))
                if self?.isOpened() != true { caller.detached(sending) }
            } catch {
                opening.resolve(.failure(error))
                if self?.isOpened() != true { caller.failedUnread(sending, error) }
            }
        }
    }

    /// Records the end of opening the first connection; returns whether there may be a reader.
    private func isOpened() -> Bool {
        guarded.withLock { guarded in
            guarded.isOpening = false
            return !guarded.isDetached
        }
    }

    /// Returns the next part; `nil` at the end, which counts as read, see ``resultRead(as:)``.
    ///
    /// - Throws: See ``part()``.
    func next<Output: Codable & Sendable>(
        as output: Output.Type
    ) async throws(SanguineError) -> String? {
        do throws(SanguineError) {
            let part = try await part()
            if part == nil { await resultRead(as: output) }
            return part
        } catch {
            await resultRead(as: output)
            throw error
        }
    }

    /// Records that the app has read the end of the answer, if it has arrived.
    ///
    /// An output that cannot be decoded leaves the call open: another version of the app may be
    /// able to read it.
    func resultRead<Output: Codable & Sendable>(as output: Output.Type) async {
        guard let outcome = guarded.withLock({ $0.outcome }) else { return }
        if case .success(let body) = outcome,
            (try? WireCoding.decode(FunctionResult<Output>.self, from: body)) == nil
        {
            return
        }
        await caller.resultRead(key)
    }

    /// Returns the next part; `nil` at the end, which does not count as read yet.
    ///
    /// - Throws: The reason why there is no answer; ``SanguineError/cancelled`` if the task is
    ///   cancelled: then the call continues, and a later read continues after the last part.
    func part() async throws(SanguineError) -> String? {
        let isFree = guarded.withLock { guarded in
            defer { guarded.isReading = true }
            return !guarded.isReading
        }
        guard isFree else {
            throw .invalidDeclaration("Read a function's stream in one task at a time.")
        }
        defer { guarded.withLock { $0.isReading = false } }
        while true {
            if let part = guarded.withLock({ $0.reader.nextPart() }) { return part }
            if let outcome = guarded.withLock({ $0.outcome }) {
                _ = try outcome.get()
                return nil
            }
            do throws(SanguineError) {
                try await advance()
            } catch {
                try await failed(error)
            }
        }
    }

    /// Returns the body of the result, after the last part; it does not count as read yet.
    func body() async throws(SanguineError) -> Data {
        while try await part() != nil {}
        guard let outcome = guarded.withLock({ $0.outcome }) else { throw .cancelled }
        return try outcome.get()
    }

    /// Ends the call.
    func cancel() async throws(SanguineError) -> Int64 { try await caller.cancel(key) }

    // MARK: - Reading

    /// Reads more parts, or the end.
    private func advance() async throws(SanguineError) {
        if Task.isCancelled { throw .cancelled }
        switch try await connection() {
        case .whole(let body, let epoch):
            if case .server = source { try caller.settle(whole: body, epoch, sending) }
            guarded.withLock { guarded in
                guarded.reader.receiveWhole(body)
                guarded.outcome = .success(body)
            }
            arrived(.success(body))
        case .events(let stream):
            guard let bytes = try await Self.read(stream, caller) else {
                throw .transport(.interrupted("the stream ended before the answer"))
            }
            // After a sign-out no part of the answer may be shown.
            try caller.call.authorizer.check()
            try receive(bytes, stream.response.epoch)
        }
    }

    private func receive(_ bytes: Data, _ epoch: Epoch?) throws(SanguineError) {
        let end: CallEventReader.End?
        do throws(CallEventReader.Broken) {
            end = try guarded.withLock { guarded throws(CallEventReader.Broken) in
                if try guarded.reader.receive(bytes) {
                    guarded.attempts = CallRetryState(mayHaveHappened: true)
                }
                return guarded.reader.end
            }
        } catch {
            throw .transport(.interrupted(error.reason))
        }
        switch end {
        case .result(let body):
            try caller.settle(body, epoch, sending)
            disconnect { $0.outcome = .success(body) }
            arrived(.success(body))
        case .problem(let problem): throw .problem(problem)
        case nil: break
        }
    }

    private func connection() async throws(SanguineError) -> Connection {
        if case .inProgress(let callInProgress) = source {
            return .whole(try await callInProgress.outcome.value(), nil)
        }
        let (connection, opening, last) = guarded.withLock {
            ($0.connection, $0.opening, $0.reader.last)
        }
        if let connection { return connection }
        let new: Connection
        if let opening {
            do throws(SanguineError) {
                new = try await opening.value()
            } catch {
                if !Task.isCancelled { guarded.withLock { $0.opening = nil } }
                throw error
            }
            guarded.withLock { $0.opening = nil }
        } else {
            guarded.withLock { $0.reader.reconnect() }
            new = try await Self.connect(sending, caller, after: last)
        }
        guarded.withLock { guarded in
            guarded.connection = new
            guarded.isDetached = false
        }
        return new
    }

    private static func connect(
        _ sending: CallRequest,
        _ caller: FunctionCaller,
        after index: Int64?
    ) async throws(SanguineError) -> Connection {
        let call = caller.call
        if sending.body == nil { await caller.isOpened(sending.key) }
        guard call.exchange.transport is any StreamingTransport else {
            let response = try await call.send(try caller.sender.request(sending))
            return .whole(response.body, response.epoch)
        }
        var headers = ["Accept": "text/event-stream"]
        headers["Last-Event-ID"] = index.map(String.init)
        let stream = try await call.stream(try caller.sender.request(sending, headers: headers))
        let type = stream.response.header("content-type")?.lowercased() ?? ""
        if type.hasPrefix("text/event-stream") { return .events(stream) }
        var body = Data()
        while let part = try await read(stream, caller) {
            body += part
            guard body.count <= ClientLimits.responseBytes else {
                throw .transport(.bodyTooLarge(limitBytes: ClientLimits.responseBytes))
            }
        }
        return .whole(body, stream.response.epoch)
    }

    /// Waits for bytes until a timeout: the server regularly sends signs of life.
    private static func read(
        _ stream: TransportStream,
        _ caller: FunctionCaller
    ) async throws(SanguineError) -> Data? {
        let watchdog = Task { [delay = caller.configuration.delay] in
            guard (try? await delay.sleep(for: FeedLimits.silence)) != nil else { return }
            stream.cancel(.timedOut)
        }
        defer { watchdog.cancel() }
        do {
            return try await stream.next()
        } catch .cancelled {
            throw .cancelled
        } catch .bodyTooLarge {
            // More has arrived than the reader has taken, so the rest is requested again.
            throw .transport(.interrupted("the reader is slower than the stream"))
        } catch {
            throw .transport(error)
        }
    }

    // MARK: - Ends

    /// Waits until another attempt makes sense, or ends the stream.
    private func failed(_ error: SanguineError) async throws(SanguineError) {
        var random = caller.configuration.random
        if case .inProgress(let callInProgress) = source {
            if error == .cancelled { caller.left(callInProgress) } else { finish(error) }
            throw error
        }
        if Task.isCancelled || error == .cancelled {
            let mustTell = disconnect { guarded in
                defer { guarded.isDetached = true }
                return guarded.countsOnReader
            }
            if mustTell { detach() }
            throw .cancelled
        }
        let verdict = disconnect { guarded in
            guarded.reader.dropEnd()
            return guarded.attempts.failed(error, using: &random)
        }
        if case .again(let delay) = verdict {
            // If the task is cancelled in the meantime, the next step notices.
            try? await caller.configuration.delay.sleep(for: delay)
            return
        }
        let failure = CallFailure(verdict: verdict, error: error)
        finish(caller.ended(sending, failure))
    }

    /// Records that the call no longer has a reader: the balance asks for its outcome.
    private func detach() {
        // The outcome of a call that was only looked up concerns the process that began it.
        if sending.body != nil { caller.detached(sending) }
    }

    private func finish(_ error: SanguineError) {
        guarded.withLock { $0.outcome = .failure(error) }
        // The error ends only this lookup by key: the call may be requested again.
        if sending.body != nil { arrived(.failure(error)) }
    }

    private func arrived(_ outcome: Result<Data, SanguineError>) {
        if case .server = source { caller.arrived(key, outcome) }
    }

    @discardableResult
    private func disconnect<Value>(_ body: (inout Guarded) -> Value) -> Value {
        let (value, connection) = guarded.withLock { guarded in
            defer { guarded.connection = nil }
            return (body(&guarded), guarded.connection)
        }
        if case .events(let stream) = connection { stream.cancel() }
        return value
    }
}
