import Foundation
public import Sanguine

/// A network under a test's control that answers, fails, holds responses, and records requests.
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
/// In an exchange the request is recorded, and the first scripted answer is used, or else the
/// closure is called. While the network holds responses, the answer is then held back. So a held
/// answer is one that the server has given and the client has not received. ``hold(_:)`` can hold
/// requests instead, before the server receives them. A cancelled exchange ends at once, unless the
/// network ``ignoresCancellation``.
///
/// The `body` of recorded requests contains uploaded files, up to `ClientLimits.requestBodyBytes`.
/// A body has been sent completely when its request arrives; ``advanceUploads(to:)`` sets the
/// progress of held ones.
public final class ScriptedTransport: UploadingTransport {
    /// The network's answer to a request: a response or an error.
    public struct Answer: Sendable {
        let result: Result<TransportResponse, TransportError>

        /// Creates a response.
        public static func respond(_ response: TransportResponse) -> Answer {
            Answer(result: .success(response))
        }

        /// Creates a response without a body.
        public static func status(_ status: Int, headers: [String: String] = [:]) -> Answer {
            respond(TransportResponse(status: status, headers: headers))
        }

        /// Creates a response with the value as JSON.
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
                return fail(
                    .invalid(
                        """
                        the scripted value cannot be encoded (\(error)). Script one that JSON can \
                        encode.
                        """
                    )
                )
            }
        }

        /// Creates an error instead of a response.
        public static func fail(_ error: TransportError) -> Answer {
            Answer(result: .failure(error))
        }
    }

    /// The half of an exchange that a network can hold.
    public enum Half: Sendable {
        /// Requests: the server has not received them, and may never do so.
        case requests
        /// Responses: the server has processed the requests, but the client does not know.
        case answers
    }

    /// Returns the answer to a request.
    public typealias Handler = @Sendable (TransportRequest) async -> Answer

    private struct Held {
        let number: UInt64
        let request: TransportRequest
        let continuation: CheckedContinuation<Bool, Never>
    }

    /// A request body that is being sent.
    private struct Upload {
        let total: Int64
        let tell: @Sendable (UploadProgress) -> Void

        func advance(to fraction: Double) {
            let sent = Int64(Double(total) * min(1, max(0, fraction)))
            tell(UploadProgress(sentBytes: sent, totalBytes: total))
        }
    }

    // Guarded by the lock of `state`. Continuations are resumed without holding it.
    private struct State {
        var requests: [TransportRequest] = []
        var script: [Answer] = []
        var held: [Held] = []
        /// Uploads of requests that the server has not received.
        var uploads: [UInt64: Upload] = [:]
        var heldBack: Half?
        var inFlight = 0
        var mostInFlight = 0
        var cancelled = 0
        var ignoresCancellation = false
        var lastNumber: UInt64 = 0

        /// Records that the server received a request, and returns its scripted answer, if any.
        mutating func arrive(_ request: TransportRequest) -> Answer? {
            requests.append(request)
            return script.isEmpty ? nil : script.removeFirst()
        }

        /// The current state, for the error of a wait.
        var summary: String {
            let last = requests.suffix(3).map { "\($0.method) \($0.url.path())" }
            let names = last.isEmpty ? "" : ", the last \(last.joined(separator: ", "))"
            return "\(requests.count) requests have arrived\(names); \(held.count) are held, "
                + "\(cancelled) exchanges were cancelled"
        }
    }

    private let state = WatchedState(State())
    private let handler: Handler

    /// Creates a network.
    ///
    /// - Parameter handler: Answers requests that have no scripted answer. Default: they fail,
    ///   because the server cannot be reached.
    public init(
        _ handler: @escaping Handler = { _ in .fail(.offline("nothing is scripted")) }
    ) {
        self.handler = handler
    }

    // MARK: - Requests

    /// All requests so far, in the order of their arrival.
    public var requests: [TransportRequest] { state.withLock { $0.requests } }

    /// The requests that are held, or whose responses are, in the order of their arrival.
    public var held: [TransportRequest] { state.withLock { $0.held.map(\.request) } }

    /// The number of current exchanges.
    public var inFlight: Int { state.withLock { $0.inFlight } }

    /// The maximum number of simultaneous exchanges so far.
    public var mostInFlight: Int { state.withLock { $0.mostInFlight } }

    /// The number of exchanges that the client cancelled.
    public var cancelled: Int { state.withLock { $0.cancelled } }

    /// Returns when at least the given number of requests have arrived since the network was
    /// created.
    ///
    /// - Throws: ``WaitTimeout`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForRequests(
        _ count: Int,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await wait("\(count) requests", fileID, line) { $0.requests.count >= count }
    }

    /// Returns when at least the given number of requests or responses are held.
    ///
    /// - Throws: ``WaitTimeout`` after ``TestingLimits/wait``; `CancellationError` when the task is
    ///   cancelled.
    public func waitForHeld(
        _ count: Int,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        try await wait("\(count) held responses", fileID, line) { $0.held.count >= count }
    }

    /// Returns when the client has cancelled at least the given number of exchanges.
    ///
    /// - Throws: ``WaitTimeout`` after ``TestingLimits/wait``; `CancellationError` when the task is
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

    // MARK: - Answers

    /// Appends answers to the next requests, in this order; each is used once.
    public func script(_ answers: Answer...) { state.withLock { $0.script += answers } }

    /// Holds all later requests, or all later responses.
    ///
    /// - Parameter half: The half of the exchange to hold. Default: the responses.
    public func hold(_ half: Half = .answers) { state.withLock { $0.heldBack = half } }

    /// Reports upload progress for all held requests.
    ///
    /// ```swift
    /// network.hold(.requests)
    /// try client.perform(SetCover(article: 1, photo: photo))
    /// try await network.waitForHeld(1)
    /// network.advanceUploads(to: 0.5)
    /// ```
    ///
    /// Only requests with a `RequestBody` report progress; see ``hold(_:)``.
    ///
    /// - Parameter fraction: The sent part of the body, from 0 to 1.
    public func advanceUploads(to fraction: Double) {
        let uploads = state.withLock { state in state.uploads.sorted { $0.key < $1.key } }
        for (_, upload) in uploads { upload.advance(to: fraction) }
    }

    /// Whether exchanges continue after the client cancels them, as on a network that ignores
    /// cancellation.
    ///
    /// Default: no.
    public var ignoresCancellation: Bool {
        get { state.withLock { $0.ignoresCancellation } }
        set { state.withLock { $0.ignoresCancellation = newValue } }
    }

    /// Releases everything that is held, and stops holding.
    public func release() {
        let released = state.withLock { state in
            state.heldBack = nil
            defer { state.held = [] }
            return state.held
        }
        for held in released { held.continuation.resume(returning: true) }
    }

    /// Waits for a held exchange whose request fits, and releases the oldest one.
    ///
    /// - Parameters:
    ///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - fits: Whether a request fits. Default: all do.
    /// - Throws: ``WaitTimeout`` after the bound; `CancellationError` when the task is cancelled.
    public func releaseFirst(
        within bound: Duration = TestingLimits.wait,
        fileID: String = #fileID,
        line: Int = #line,
        where fits: @escaping @Sendable (TransportRequest) -> Bool = { _ in true }
    ) async throws {
        while true {
            try await state.wait(
                for: "a held response to release",
                within: bound,
                found: { $0.summary },
                fileID: fileID,
                line: line
            ) {
                $0.held.contains { fits($0.request) }
            }
            // Another caller may have released it in the meantime.
            if take(where: { fits($0.request) }, isReleased: true) { return }
        }
    }

    // MARK: - Transport

    /// Performs an exchange.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        try await exchange(request, nil)
    }

    /// Performs an exchange, and reports the upload's progress: nothing at first, everything when
    /// the server has the request, and the value of ``advanceUploads(to:)`` in between.
    public func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        guard let total = request.bodySize else { throw .unreadableBodyFile }
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
            guard isLetGo else { throw recordCancellation() }
            scripted = state.withLock { $0.arrive(request) }
        }
        upload?.advance(to: 1)
        let answer = if let scripted { scripted } else { await handler(request) }
        guard await pass(.answers, request, number) else { throw recordCancellation() }
        return try answer.result.get()
    }

    private func recordCancellation() -> TransportError {
        state.withLock { $0.cancelled += 1 }
        return .cancelled
    }

    /// Returns whether the exchange continues: after its release, but not after a cancellation.
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
