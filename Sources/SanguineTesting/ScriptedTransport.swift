import Foundation
public import Sanguine

/// A network that does what a test says: answers, fails, keeps answers back, and remembers.
///
/// ```swift
/// let network = ScriptedTransport { request in
///     .json(["name": "Ada"])
/// }
/// configuration.transport = network
/// network.hold()
/// async let profile = client.value(of: .profile("42"))
/// try await network.waitForHeld(1)
/// network.release()
/// ```
///
/// An exchange goes so: the request is recorded; the first scripted answer is taken, or else the
/// closure is asked; then, while the network holds, the answer is kept back. So a held answer is
/// one that the server has given and the client does not have yet. ``hold(_:)`` can keep requests
/// back instead, before the server has them. A cancelled exchange ends at once, whatever the
/// network does, unless it ``ignoresCancellation``.
///
/// Files that are sent are in the `body` of what is recorded, up to
/// `ClientLimits.requestBodyBytes`. All of a body has been sent when the request arrives;
/// ``advanceUploads(to:)`` says how much of one that is kept back.
public final class ScriptedTransport: UploadingTransport {
    /// What the network makes of a request: a response or a failure.
    public struct Answer: Sendable {
        let result: Result<TransportResponse, TransportError>

        /// A response.
        public static func respond(_ response: TransportResponse) -> Answer {
            Answer(result: .success(response))
        }

        /// A response without a body.
        public static func status(_ status: Int, headers: [String: String] = [:]) -> Answer {
            respond(TransportResponse(status: status, headers: headers))
        }

        /// A response with the value in JSON.
        public static func json(
            _ value: some Encodable,
            status: Int = 200,
            headers: [String: String] = [:]
        ) -> Answer {
            do {
                let body = try JSONEncoder().encode(value)
                var response = TransportResponse(status: status, headers: headers, body: body)
                if response.header("content-type") == nil {
                    response.headers["content-type"] = "application/json"
                }
                return respond(response)
            } catch {
                return fail(.invalid("the scripted value cannot be encoded: \(error)"))
            }
        }

        /// No response.
        public static func fail(_ error: TransportError) -> Answer {
            Answer(result: .failure(error))
        }
    }

    /// What a network can keep back.
    public enum Half: Sendable {
        /// Requests: the server does not have them yet, and may never.
        case requests
        /// Answers: what was asked is done, and the client does not know.
        case answers
    }

    /// Makes an answer of a request.
    public typealias Handler = @Sendable (TransportRequest) async -> Answer

    private struct Held {
        let number: UInt64
        let request: TransportRequest
        let continuation: CheckedContinuation<Bool, Never>
    }

    /// A body on its way to the server.
    private struct Upload {
        let total: Int64
        let tell: @Sendable (UploadProgress) -> Void

        func advance(to fraction: Double) {
            let sent = Int64(Double(total) * min(1, max(0, fraction)))
            tell(UploadProgress(sentBytes: sent, totalBytes: total))
        }
    }

    // Guarded by the lock of `state`. Continuations are resumed outside of it.
    private struct State {
        var requests: [TransportRequest] = []
        var script: [Answer] = []
        var held: [Held] = []
        /// Of requests that the server does not have yet.
        var uploads: [UInt64: Upload] = [:]
        var heldBack: Half?
        var inFlight = 0
        var mostInFlight = 0
        var cancelled = 0
        var ignoresCancellation = false
        var lastNumber: UInt64 = 0

        /// The server has the request; returns the answer that is scripted for it, if any.
        mutating func arrive(_ request: TransportRequest) -> Answer? {
            requests.append(request)
            return script.isEmpty ? nil : script.removeFirst()
        }

        /// What there is, for who waits in vain.
        var summary: String {
            let last = requests.suffix(3).map { "\($0.method) \($0.url.path())" }
            let names = last.isEmpty ? "" : ", the last \(last.joined(separator: ", "))"
            return "\(requests.count) requests have come\(names); \(held.count) are held, "
                + "\(cancelled) exchanges were cancelled"
        }
    }

    private let state = WatchedState(State())
    private let handler: Handler

    /// Creates a network.
    ///
    /// - Parameter handler: What answers when no answer is scripted. Default: nobody; the server
    ///   cannot be reached.
    public init(
        _ handler: @escaping Handler = { _ in .fail(.offline("nothing is scripted")) }
    ) {
        self.handler = handler
    }

    // MARK: - What was asked

    /// All requests so far, in the order in which they came.
    public var requests: [TransportRequest] { state.withLock { $0.requests } }

    /// The requests that are kept back, or whose answers are, in the order in which they came.
    public var held: [TransportRequest] { state.withLock { $0.held.map(\.request) } }

    /// How many exchanges are under way.
    public var inFlight: Int { state.withLock { $0.inFlight } }

    /// How many exchanges were under way at once, at most.
    public var mostInFlight: Int { state.withLock { $0.mostInFlight } }

    /// How many exchanges were cancelled by the client.
    public var cancelled: Int { state.withLock { $0.cancelled } }

    /// Returns when at least so many requests have come, since the network was created.
    ///
    /// - Throws: ``VainWait`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForRequests(
        _ count: Int,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await wait("\(count) requests", fileID, line) { $0.requests.count >= count }
    }

    /// Returns when at least so many requests or answers are kept back.
    ///
    /// - Throws: ``VainWait`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForHeld(
        _ count: Int,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await wait("\(count) held answers", fileID, line) { $0.held.count >= count }
    }

    /// Returns when at least so many exchanges were cancelled by the client.
    ///
    /// - Throws: ``VainWait`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForCancelled(
        _ count: Int,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await wait("\(count) cancelled exchanges", fileID, line) { $0.cancelled >= count }
    }

    private func wait(
        _ awaited: String,
        _ fileID: String,
        _ line: Int,
        _ isMet: @escaping @Sendable (State) -> Bool
    ) async throws {
        try await state.wait(
            for: awaited,
            found: { $0.summary },
            fileID: fileID,
            line: line,
            until: isMet
        )
    }

    // MARK: - What is answered

    /// Scripts answers for the next requests, in this order; each is given once.
    public func script(_ answers: Answer...) { state.withLock { $0.script += answers } }

    /// Keeps back every request, or every answer, from now on.
    ///
    /// - Parameter half: Which of them. Default: the answers.
    public func hold(_ half: Half = .answers) { state.withLock { $0.heldBack = half } }

    /// Says of each request that is kept back how much of its body has been sent.
    ///
    /// ```swift
    /// network.hold(.requests)
    /// try client.perform(SetCover(article: 1, photo: photo))
    /// try await network.waitForHeld(1)
    /// network.advanceUploads(to: 0.5)
    /// ```
    ///
    /// Only of those with a `RequestBody`; see ``hold(_:)``.
    ///
    /// - Parameter fraction: How much, from 0 to 1.
    public func advanceUploads(to fraction: Double) {
        let uploads = state.withLock { state in state.uploads.sorted { $0.key < $1.key } }
        for (_, upload) in uploads { upload.advance(to: fraction) }
    }

    /// Whether exchanges go on when the client has cancelled them.
    ///
    /// So does a network that does not listen. Default: no.
    public var ignoresCancellation: Bool {
        get { state.withLock { $0.ignoresCancellation } }
        set { state.withLock { $0.ignoresCancellation = newValue } }
    }

    /// Lets all go that was kept back, and keeps back nothing from now on.
    public func release() {
        let released = state.withLock { state in
            state.heldBack = nil
            defer { state.held = [] }
            return state.held
        }
        for held in released { held.continuation.resume(returning: true) }
    }

    /// Lets one go that is kept back: the oldest whose request fits.
    ///
    /// Waits until there is one.
    ///
    /// - Parameters:
    ///   - bound: How long, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - fits: Which requests. Default: any.
    /// - Throws: ``VainWait`` when the time is up; `CancellationError` when the task is cancelled.
    public func releaseFirst(
        within bound: Duration = TestingLimits.wait,
        fileID: String = #fileID,
        line: Int = #line,
        where fits: @escaping @Sendable (TransportRequest) -> Bool = { _ in true }
    ) async throws {
        while true {
            try await state.wait(
                for: "a held answer to release",
                within: bound,
                found: { $0.summary },
                fileID: fileID,
                line: line
            ) {
                $0.held.contains { fits($0.request) }
            }
            // Somebody else may have taken it meanwhile.
            if take(where: { fits($0.request) }, isReleased: true) { return }
        }
    }

    // MARK: - Transport

    /// Plays one exchange.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        try await exchange(request, nil)
    }

    /// Plays one exchange, and tells how much of the body has been sent: nothing at first, all of
    /// it when the server has the request, and what ``advanceUploads(to:)`` says between.
    public func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        guard let total = request.bodySize else { throw .invalid("the body's file is gone") }
        let upload = Upload(total: total, tell: progress)
        upload.advance(to: 0)
        return try await exchange(request.withBodyInMemory ?? request, upload)
    }

    private func exchange(
        _ request: TransportRequest,
        _ upload: Upload?
    ) async throws(TransportError) -> TransportResponse {
        let (number, arrival) = state.withLock { state -> (UInt64, Answer??) in
            state.inFlight += 1
            state.mostInFlight = max(state.mostInFlight, state.inFlight)
            state.lastNumber += 1
            let isKept = state.heldBack == .requests
            if isKept, let upload { state.uploads[state.lastNumber] = upload }
            return (state.lastNumber, isKept ? nil : .some(state.arrive(request)))
        }
        defer { state.withLock { $0.inFlight -= 1 } }
        let scripted: Answer?
        if let arrival {
            scripted = arrival
        } else {
            let isLetGo = await pass(.requests, request, number)
            state.withLock { _ = $0.uploads.removeValue(forKey: number) }
            guard isLetGo else { throw noteCancelled() }
            scripted = state.withLock { $0.arrive(request) }
        }
        upload?.advance(to: 1)
        let answer = if let scripted { scripted } else { await handler(request) }
        guard await pass(.answers, request, number) else { throw noteCancelled() }
        return try answer.result.get()
    }

    private func noteCancelled() -> TransportError {
        state.withLock { $0.cancelled += 1 }
        return .cancelled
    }

    /// Returns whether the exchange goes on: when it is let go, and not when it is cancelled.
    private func pass(_ half: Half, _ request: TransportRequest, _ number: UInt64) async -> Bool {
        let isReleased = await passHold(half, request, number)
        return ignoresCancellation || isReleased && !Task.isCancelled
    }

    private func passHold(
        _ half: Half,
        _ request: TransportRequest,
        _ number: UInt64
    ) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isHeld = state.withLock { state in
                    guard state.heldBack == half else { return false }
                    state.held.append(
                        Held(number: number, request: request, continuation: continuation)
                    )
                    return true
                }
                if !isHeld {
                    continuation.resume(returning: true)
                } else if Task.isCancelled, !ignoresCancellation {
                    take(where: { $0.number == number }, isReleased: false)
                }
            }
        } onCancel: {
            if !ignoresCancellation { take(where: { $0.number == number }, isReleased: false) }
        }
    }

    @discardableResult
    private func take(where fits: (Held) -> Bool, isReleased: Bool) -> Bool {
        let held = state.withLock { state -> Held? in
            state.held.firstIndex(where: fits).map { state.held.remove(at: $0) }
        }
        held?.continuation.resume(returning: isReleased)
        return held != nil
    }
}
