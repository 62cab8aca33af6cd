import SanguineModel
import Synchronization

/// Authenticates requests to the app's own backend with the closures of the configuration.
///
/// Its token is the number of renewals. The actual tokens belong to the app, and the client sees
/// them only in requests.
///
/// All requests that are rejected wait for one renewal. A request that was in flight when a renewal
/// ended shares its result; a later one starts the next renewal.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held over app code.
final class BackendAuthorizer: TokenSource {
    private struct Refresh {
        let outcome: OneShot<Int>
        let renewal: Int
        var tasks: [Task<Void, Never>] = []
    }

    private struct Guarded {
        var renewals = 0
        /// The result of the last renewal.
        var last: Result<Int, SanguineError> = .success(0)
        var running: Refresh?
    }

    private enum Step {
        case use(Result<Int, SanguineError>)
        case wait(OneShot<Int>)
        case start(OneShot<Int>)
    }

    /// Whether tokens can be renewed.
    var renews: Bool { refresh != nil }

    private let guarded = Mutex(Guarded())
    private let authorize: (@Sendable (inout TransportRequest) async throws -> Void)?
    private let refresh: (@Sendable () async throws -> Void)?
    private let delay: any Clock<Duration>

    init(_ configuration: SanguineClient.Configuration) {
        authorize = configuration.authorize
        refresh = configuration.refresh
        delay = configuration.delay
    }

    /// Adds the authentication to a request.
    ///
    /// - Throws: The error of the app's closure; a 401 if it is permanent.
    func authorized(
        _ request: TransportRequest
    ) async throws(SanguineError) -> TransportRequest {
        guard let authorize else { return request }
        var request = request
        do {
            try await authorize(&request)
        } catch {
            throw Self.failure(error, of: "authorize")
        }
        return request
    }

    func accessToken() async throws(SanguineError) -> Int { guarded.withLock { $0.renewals } }

    func rejected(_ token: Int) async throws(SanguineError) -> Int {
        guard let refresh else { return token }
        let step = guarded.withLock { guarded -> Step in
            if let running = guarded.running { return .wait(running.outcome) }
            guard guarded.renewals == token else { return .use(guarded.last) }
            let outcome = OneShot<Int>()
            guarded.running = Refresh(outcome: outcome, renewal: token + 1)
            return .start(outcome)
        }
        switch step {
        case .use(let last): return try last.get()
        case .wait(let outcome): return try await outcome.value()
        case .start(let outcome):
            renew(refresh, outcome)
            return try await outcome.value()
        }
    }

    /// Cancels a renewal in progress and fails its waiting callers, because the user has left.
    func end(_ reason: SanguineError) { complete(.failure(reason)) }

    // Runs in separate tasks: a cancelled caller must not cancel the renewal of others, and the
    // app's closure may ignore its cancellation.
    private func renew(
        _ refresh: @escaping @Sendable () async throws -> Void,
        _ outcome: OneShot<Int>
    ) {
        let work = Task { [weak self] in
            do {
                try await refresh()
                self?.complete(.success(()), of: outcome)
            } catch {
                self?.complete(.failure(Self.failure(error, of: "refresh")), of: outcome)
            }
        }
        let deadline = Task { [weak self, delay] in
            guard (try? await delay.sleep(for: ClientLimits.refreshTimeout)) != nil else { return }
            self?.complete(.failure(.transport(.timedOut)), of: outcome)
        }
        let isOver = guarded.withLock { guarded in
            guard guarded.running?.outcome === outcome else { return true }
            guarded.running?.tasks = [work, deadline]
            return false
        }
        if isOver { for task in [work, deadline] { task.cancel() } }
    }

    private func complete(_ result: Result<Void, SanguineError>, of outcome: OneShot<Int>? = nil) {
        let (running, last) = guarded.withLock {
            guarded -> (Refresh?, Result<Int, SanguineError>) in
            guard let running = guarded.running, outcome == nil || running.outcome === outcome
            else { return (nil, guarded.last) }
            guarded.running = nil
            guarded.renewals = running.renewal
            guarded.last = result.map { running.renewal }
            return (running, guarded.last)
        }
        running?.outcome.resolve(last)
        for task in running?.tasks ?? [] { task.cancel() }
    }

    /// Converts the error of one of the app's closures: a permanent failure requires a sign-in.
    ///
    /// The result never refuses an operation, because the operation has not been sent yet.
    private static func failure(_ error: any Error, of closure: String) -> SanguineError {
        let failure = SanguineError(error)
        switch failure.errorClass {
        case .retryable, .waits, .cancelled, .needsSignIn: return failure
        case .refused, .gone, .defect:
            var problem = Problem(
                .unauthenticated,
                "Sign the user in: the configuration's '\(closure)' failed: \(failure)"
            )
            problem.known = ProblemContext(underlying: error)
            return .problem(problem)
        }
    }
}
