import Foundation
import SanguineModel
import Synchronization

/// The plan of a fetch: its policy and where to send it.
struct FetchPlan: Sendable {
    /// The name of the query, for metrics and the log.
    var name: String
    var policy: Policy
    /// The backend's address, if it is not the client's.
    var base: URL?
    /// The metrics that count retries.
    var metrics: NamedMetrics?
    /// The number of attempts of this fetch.
    var attempts: AttemptCount?
    /// The number of the entry's fetch; 0 if it is not the fetch of an entry.
    var fetchNumber: UInt64 = 0
    /// The key of the entry; `nil` if it is not the fetch of an entry.
    var key: QueryKey?
}

/// The number of attempts of a fetch, read after it has ended.
final class AttemptCount: Sendable {
    private let count = Atomic(1)

    var value: Int { count.load(ordering: .relaxed) }

    func add() { count.add(1, ordering: .relaxed) }
}

/// The last error of a fetch's attempts, read when its time has run out.
private final class FailureNote: Sendable {
    // The only mutable state, guarded by the mutex.
    private let last = Mutex<SanguineError?>(nil)

    func record(_ error: SanguineError) { last.withLock { $0 = error } }

    var timedOut: SanguineError {
        last.withLock { $0 }.map { .timedOut(after: $0) } ?? .transport(.timedOut)
    }
}

/// Performs a fetch with all its attempts: retries errors that may pass, within a time limit.
struct ReadAttempts: Sendable {
    let backend: QueryRequest.Backend
    let delay: any Clock<Duration>
    let random: RandomSource
    /// Returns the schedule that replaces a query's own.
    let schedule: @Sendable (RetrySchedule) -> RetrySchedule
    /// The error with which every fetch fails; `nil` if fetches are allowed.
    var refusal: SanguineError?
    /// Replaces the time limits of queries.
    var switches: SwitchBoard?
    /// Logs retries.
    var steps: StepLog?

    /// Fetches until there is a value or an error that no retry can cure, for at most 60 s.
    ///
    /// - Parameters:
    ///   - plan: The plan of the fetch.
    ///   - priority: The priority, which may be raised later. Default: the policy's.
    ///   - body: Performs one attempt.
    /// - Returns: The value or the error of the last attempt; if the time ran out,
    ///   ``SanguineError/timedOut(after:)`` with the error of the last failed attempt.
    func fetch<Value: Sendable>(
        _ plan: FetchPlan,
        priority: RequestPriority? = nil,
        _ body: @escaping @Sendable (QueryRequest) async throws -> Value
    ) async -> Result<Value, SanguineError> {
        if let refusal { return .failure(refusal) }
        let request = request(plan, priority)
        let failures = FailureNote()
        return await withDeadline(ClientLimits.readTimeout, failures) {
            await attempt(plan, request, failures, body)
        }
    }

    /// Creates the request that is passed to the query's closure.
    func request(_ plan: FetchPlan, _ priority: RequestPriority?) -> QueryRequest {
        QueryRequest(
            timeout: switches?.timeout(ofQuery: plan.name) ?? plan.policy.timeout,
            base: plan.base,
            attempts: self,
            fetchContext: FetchContext(
                number: plan.fetchNumber,
                priority: priority ?? RequestPriority(plan.policy.priority),
                host: (plan.base ?? backend.baseURL ?? backend.call.server)?.hostKey ?? ""
            )
        )
    }

    private func attempt<Value: Sendable>(
        _ plan: FetchPlan,
        _ request: QueryRequest,
        _ note: FailureNote,
        _ body: @Sendable (QueryRequest) async throws -> Value
    ) async -> Result<Value, SanguineError> {
        var random = random
        var failures = 0
        if request.priority.current == .prefetch,
            let pause = backend.retries.pause(of: request.fetchContext.host)
        {
            return .failure(pause.error)
        }
        while true {
            let outcome = await once(request, body)
            // The fetch was part of another one, which has counted and retried its requests.
            guard !request.fetchContext.isSettled else { return outcome }
            let host = request.fetchContext.host
            if failures == 0 { backend.retries.requested(host) }
            guard case .failure(let failure) = outcome else { return outcome }
            failures += 1
            note.record(failure)
            let retry = schedule(plan.policy.retry)
            backend.retries.failed(host, with: failure)
            guard let wait = retry.delay(afterFailures: failures, of: failure, using: &random),
                let all = backend.retries.wait(wait, by: retry, for: host, using: &random)
            else { return .failure(failure) }
            plan.attempts?.add()
            plan.metrics?.fetchRetried(afterAttempt: failures, failedWith: failure)
            steps?.log(
                .retried,
                .query(plan.name, plan.key),
                attempt: failures,
                code: failure.metricsCode
            )
            // Sleeping fails only when the last caller has been cancelled.
            guard (try? await delay.sleep(for: all)) != nil else { return .failure(.cancelled) }
        }
    }

    private func once<Value: Sendable>(
        _ request: QueryRequest,
        _ body: @Sendable (QueryRequest) async throws -> Value
    ) async -> Result<Value, SanguineError> {
        do {
            return .success(try await body(request))
        } catch {
            return .failure(Task.isCancelled ? .cancelled : SanguineError(error))
        }
    }

    // Runs in a separate task and not in a group, which would wait for it: the app's closure may
    // ignore its cancellation, and the time limit must still hold.
    private func withDeadline<Value: Sendable>(
        _ limit: Duration,
        _ failures: FailureNote,
        _ body: @escaping @Sendable () async -> Result<Value, SanguineError>
    ) async -> Result<Value, SanguineError> {
        let outcome = OneShot<Value>()
        let work = Task { outcome.resolve(await body()) }
        let deadline = Task {
            guard (try? await delay.sleep(for: limit)) != nil else { return }
            outcome.resolve(.failure(failures.timedOut))
        }
        defer {
            work.cancel()
            deadline.cancel()
        }
        do throws(SanguineError) {
            return .success(try await outcome.value())
        } catch {
            return .failure(error)
        }
    }
}

extension SanguineError {
    /// Converts any error that a closure of the app threw.
    ///
    /// Network errors are recognized regardless of the code that threw them. An error that reports
    /// a cancellation becomes an interruption, because the caller has not cancelled.
    init(_ error: any Error) {
        switch error {
        case let error as SanguineError: self = error
        case let error as Problem: self = .problem(error)
        case let error as Refusal: self = .problem(error.problem)
        case is any ClassifiedError: self = .queryFailed(ClosureFailure(error))
        default:
            switch TransportError(ofNetwork: error) {
            case .cancelled: self = .transport(.interrupted("the request was cancelled"))
            case let failure?: self = .transport(failure)
            case nil: self = .queryFailed(ClosureFailure(error))
            }
        }
    }
}

extension ReadAttempts {
    /// Creates the attempts for reads from a backend.
    init(
        _ backend: QueryRequest.Backend,
        _ configuration: SanguineClient.Configuration,
        _ switches: SwitchBoard? = nil,
        _ steps: StepLog? = nil
    ) {
        self.init(
            backend: backend,
            delay: configuration.delay,
            random: configuration.random,
            schedule: configuration.schedule,
            refusal: configuration.refusal,
            switches: switches,
            steps: steps
        )
    }
}
