import Foundation
import SanguineModel

/// What is fetched, and how.
struct FetchPlan: Sendable {
    /// The name of the query, for metrics and the log.
    var name: String
    var policy: Policy
    /// The backend's address, if not the client's.
    var base: URL?
}

/// One fetch of a query with all its attempts: retries what may succeed, and ends in time.
struct ReadAttempts: Sendable {
    let backend: QueryRequest.Backend
    let delay: any Clock<Duration>
    let random: RandomSource
    /// The schedule that is kept instead of a query's own.
    let schedule: @Sendable (RetrySchedule) -> RetrySchedule

    /// Fetches until there is a value, an error that no attempt would cure, or 60 s have gone.
    ///
    /// - Parameters:
    ///   - plan: What is fetched, and how.
    ///   - epoch: Whose data it is; `nil` if it is no user's.
    ///   - body: Fetches once.
    func fetch<Value: Sendable>(
        _ plan: FetchPlan,
        epoch: SessionEpoch?,
        _ body: @escaping @Sendable (QueryRequest) async throws -> Value
    ) async -> Result<Value, SanguineError> {
        await withDeadline(ClientLimits.readTimeout) {
            await attempt(plan, epoch: epoch, body)
        }
    }

    private func attempt<Value: Sendable>(
        _ plan: FetchPlan,
        epoch: SessionEpoch?,
        _ body: @Sendable (QueryRequest) async throws -> Value
    ) async -> Result<Value, SanguineError> {
        let request = QueryRequest(
            timeout: plan.policy.timeout,
            base: plan.base,
            backend: backend,
            epoch: epoch
        )
        var random = random
        var failures = 0
        while true {
            let failure: SanguineError
            do {
                return .success(try await body(request))
            } catch {
                failure = Task.isCancelled ? .cancelled : SanguineError(error)
            }
            failures += 1
            guard
                let wait = schedule(plan.policy.retry)
                    .delay(afterFailures: failures, of: failure, using: &random)
            else { return .failure(failure) }
            // Sleeping fails only when the last one who wanted the value has gone.
            guard (try? await delay.sleep(for: wait)) != nil else { return .failure(.cancelled) }
        }
    }

    // The work runs in a task of its own, and not in a group, which would wait for it: an app's
    // closure may ignore its cancellation, and the time-out holds all the same.
    private func withDeadline<Value: Sendable>(
        _ limit: Duration,
        _ body: @escaping @Sendable () async -> Result<Value, SanguineError>
    ) async -> Result<Value, SanguineError> {
        let outcome = OneShot<Value>()
        let work = Task { outcome.resolve(await body()) }
        let deadline = Task {
            guard (try? await delay.sleep(for: limit)) != nil else { return }
            outcome.resolve(.failure(.transport(.timedOut)))
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
    /// The client's form of whatever a query's closure threw.
    init(_ error: any Error) {
        switch error {
        case let error as SanguineError: self = error
        case let error as Problem: self = .problem(error)
        case TransportError.cancelled: self = .cancelled
        case let error as TransportError: self = .transport(error)
        case is CancellationError: self = .cancelled
        default: self = .queryFailed("\(error)")
        }
    }
}
