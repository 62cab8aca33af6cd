import Foundation
public import Sanguine
import Synchronization

/// A network that does what a test says: answers, fails, keeps answers back, and remembers.
///
/// ```swift
/// let network = ScriptedTransport { request in
///     .json(["name": "Ada"])
/// }
/// configuration.transport = network
/// network.hold()
/// async let profile = client.value(of: .profile("42"))
/// await network.waitForRequests(1)
/// network.release()
/// ```
///
/// An exchange goes so: the request is recorded; the first scripted answer is taken, or else the
/// closure is asked; then, while the network holds, the answer is kept back. So a held answer is
/// one that the server has given and the client does not have yet. A cancelled exchange ends at
/// once, whatever the network does.
public final class ScriptedTransport: Transport {
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

    /// Makes an answer of a request.
    public typealias Handler = @Sendable (TransportRequest) async -> Answer

    private struct Held {
        let number: UInt64
        let request: TransportRequest
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct Watcher {
        let requests: Int
        let held: Int
        let cancelled: Int
        let continuation: AsyncStream<Never>.Continuation
    }

    // Guarded by the mutex of `state`. Continuations are resumed outside of it.
    private struct State {
        var requests: [TransportRequest] = []
        var script: [Answer] = []
        var held: [Held] = []
        var watchers: [Watcher] = []
        var isHolding = false
        var inFlight = 0
        var mostInFlight = 0
        var cancelled = 0
        var lastNumber: UInt64 = 0

        mutating func takeSatisfiedWatchers() -> [Watcher] {
            let (requests, held, cancelled) = (requests.count, held.count, cancelled)
            let isSatisfied = { (watcher: Watcher) in
                watcher.requests <= requests && watcher.held <= held
                    && watcher.cancelled <= cancelled
            }
            defer { watchers.removeAll(where: isSatisfied) }
            return watchers.filter(isSatisfied)
        }
    }

    private let state = Mutex(State())
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

    /// How many exchanges are under way.
    public var inFlight: Int { state.withLock { $0.inFlight } }

    /// How many exchanges were under way at once, at most.
    public var mostInFlight: Int { state.withLock { $0.mostInFlight } }

    /// How many exchanges were cancelled by the client.
    public var cancelled: Int { state.withLock { $0.cancelled } }

    /// Returns when at least so many requests have come, since the network was created.
    public func waitForRequests(_ count: Int) async { await wait(requests: count) }

    /// Returns when at least so many answers are held back.
    public func waitForHeld(_ count: Int) async { await wait(held: count) }

    /// Returns when at least so many exchanges were cancelled by the client.
    public func waitForCancelled(_ count: Int) async { await wait(cancelled: count) }

    // MARK: - What is answered

    /// Scripts answers for the next requests, in this order; each is given once.
    public func script(_ answers: Answer...) { state.withLock { $0.script += answers } }

    /// Keeps back every answer from now on.
    public func hold() { state.withLock { $0.isHolding = true } }

    /// Gives all answers that were kept back, and keeps back none from now on.
    public func release() {
        let released = state.withLock { state in
            state.isHolding = false
            defer { state.held = [] }
            return state.held
        }
        for held in released { held.continuation.resume(returning: true) }
    }

    /// Gives one answer that was kept back: the oldest whose request fits.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func releaseFirst(
        where fits: @Sendable (TransportRequest) -> Bool = { _ in true }
    ) -> Bool {
        let requests = state.withLock { $0.held.map { ($0.number, $0.request) } }
        guard let (number, _) = requests.first(where: { fits($0.1) }) else { return false }
        return end(number, isReleased: true)
    }

    // MARK: - Transport

    /// Plays one exchange.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        let (number, scripted, satisfied) = state.withLock { state in
            state.requests.append(request)
            state.inFlight += 1
            state.mostInFlight = max(state.mostInFlight, state.inFlight)
            state.lastNumber += 1
            let scripted = state.script.isEmpty ? nil : state.script.removeFirst()
            return (state.lastNumber, scripted, state.takeSatisfiedWatchers())
        }
        for watcher in satisfied { watcher.continuation.finish() }
        defer { state.withLock { $0.inFlight -= 1 } }
        let answer = if let scripted { scripted } else { await handler(request) }
        let isReleased = await passHold(request, number)
        guard isReleased, !Task.isCancelled else {
            let satisfied = state.withLock { state in
                state.cancelled += 1
                return state.takeSatisfiedWatchers()
            }
            for watcher in satisfied { watcher.continuation.finish() }
            throw .cancelled
        }
        return try answer.result.get()
    }

    private func passHold(_ request: TransportRequest, _ number: UInt64) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isHeld, satisfied) = state.withLock { state -> (Bool, [Watcher]) in
                    guard state.isHolding else { return (false, []) }
                    state.held.append(
                        Held(number: number, request: request, continuation: continuation)
                    )
                    return (true, state.takeSatisfiedWatchers())
                }
                for watcher in satisfied { watcher.continuation.finish() }
                if !isHeld {
                    continuation.resume(returning: true)
                } else if Task.isCancelled {
                    end(number, isReleased: false)
                }
            }
        } onCancel: {
            end(number, isReleased: false)
        }
    }

    @discardableResult
    private func end(_ number: UInt64, isReleased: Bool) -> Bool {
        let held = state.withLock { state -> Held? in
            guard let index = state.held.firstIndex(where: { $0.number == number })
            else { return nil }
            return state.held.remove(at: index)
        }
        held?.continuation.resume(returning: isReleased)
        return held != nil
    }

    // Returns early if the waiting task is cancelled.
    private func wait(requests: Int = 0, held: Int = 0, cancelled: Int = 0) async {
        let (satisfaction, continuation) = AsyncStream.makeStream(of: Never.self)
        let satisfied = state.withLock { state in
            state.watchers.append(
                Watcher(
                    requests: requests,
                    held: held,
                    cancelled: cancelled,
                    continuation: continuation
                )
            )
            return state.takeSatisfiedWatchers()
        }
        for watcher in satisfied { watcher.continuation.finish() }
        for await _ in satisfaction {}
    }
}
