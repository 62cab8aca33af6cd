package import SanguineModel
import Synchronization

/// Runs metered functions: accepts, calls, settles.
///
/// Once a call is accepted it runs in a task of its own to its end. A client that hangs up cancels
/// nothing: what the upstream was asked to make is paid for, and its answer is kept under the key.
///
/// Invariants:
///
/// 1. Every accepted call is settled or withdrawn exactly once, or left to its hold's expiry if the
///    storage fails. Then it is never answered like a refusal that changed nothing.
/// 2. At most ``limit`` calls run at a time; of one account a quarter of them, of one address half.
/// 3. ``waitUntilIdle()`` returns only when no call runs any more, so that a graceful shutdown
///    loses none, or when ``abandon()`` ends the patience.
package final class CallRunner: Sendable {
    /// What is told of calls, for logs and metrics.
    package struct Reports: Sendable {
        /// A call of a function has ended: `succeeded`, or the code of its problem.
        package var ended: @Sendable (_ function: String, _ outcome: String) -> Void
        /// The end of a call could not be stored, at that attempt.
        package var notStored: @Sendable (_ problem: Problem, _ attempt: Int) -> Void

        /// Creates reports to nobody.
        package init() {
            ended = { _, _ in }
            notStored = { _, _ in }
        }
    }

    /// How many calls run at a time.
    package var limit: Int { slots.limit }

    private let slots: SharedPool
    private let authority: Authority
    private let functions: @Sendable () -> [any MeteredFunction]
    private let expiryInterval: Duration
    private let delay: any Clock<Duration>
    private let reports: Reports
    private let estimates = CostEstimates()

    // Guarded by the mutex: whether a call may begin is decided before the handler suspends.
    private struct State {
        var running = 0
        var isStopped = false
        /// Requests that wait for the calls that they began.
        var waiting: [UInt64: CheckedContinuation<Result<Answer, Problem>, Never>] = [:]
        var lastCall: UInt64 = 0
        /// How many requests of this process are about a call now: its run and its repetitions.
        var present: [OperationPosition: Int] = [:]
        var whenIdle: CheckedContinuation<Void, Never>?
    }
    private let state = Mutex(State())

    /// The share of the calls that one account may have: a quarter.
    package static let accountShare = 4

    /// Creates a runner.
    ///
    /// - Parameters:
    ///   - authority: What accepts and settles.
    ///   - functions: The functions that there are now; of several with one name the first counts.
    ///   - limit: How many calls run at a time.
    ///   - expiryInterval: How often holds are looked at whose time is over.
    ///   - delay: The clock that waits.
    ///   - reports: What is told of calls. Default: nothing.
    package init(
        authority: Authority,
        functions: @escaping @Sendable () -> [any MeteredFunction],
        limit: Int,
        expiryInterval: Duration,
        delay: any Clock<Duration>,
        reports: Reports = Reports()
    ) {
        self.authority = authority
        self.functions = functions
        slots = SharedPool(limit: limit, accountShare: max(1, limit / Self.accountShare))
        self.expiryInterval = expiryInterval
        self.delay = delay
        self.reports = reports
    }

    /// What is said of the functions.
    package var descriptions: [FunctionDescription] { functions().map(\.description) }

    /// Waits for the calls that still run, or for ``abandon()``, which may have been before.
    package func waitUntilIdle() async { await wait { $0.isStopped } }

    /// Waits for the calls that still run although nobody waits for them, or for the next
    /// ``abandon()``.
    package func waitForLast() async { await wait { _ in false } }

    private func wait(unless isInVain: (State) -> Bool) async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard state.running > 0, !isInVain(state) else { return true }
                state.whenIdle = continuation
                return false
            }
            if isIdle { continuation.resume() }
        }
    }

    /// What a call would cost.
    ///
    /// - Throws: `not_found`, `invalid_content`.
    package func quote(
        _ name: String,
        _ body: Result<FunctionRequest<JSONValue>, Problem>
    ) throws(Problem) -> Quote {
        let function = try function(name)
        let prepared = try Self.prepare(try body.get(), for: function)
        return Quote(
            estimate: min(prepared.hold, estimates.estimate(of: name) ?? prepared.guess),
            hold: prepared.hold
        )
    }

    /// Calls a function, or gives the answer of the same call again.
    ///
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `insufficient_tokens`, `upstream_missing`,
    ///   `overloaded`. A call that was accepted and failed is an answer, with its problem. One
    ///   whose end the storage does not take is `operation_in_progress` or `internal_fault`: the
    ///   same key gets its end.
    package func call(
        _ name: String,
        _ account: Identifier,
        from address: String? = nil,
        _ submission: Submission<FunctionRequest<JSONValue>>
    ) async throws(Problem) -> Answer {
        let position = OperationPosition(account: account, key: submission.key)
        state.withLock { $0.present[position, default: 0] += 1 }
        defer { leave(position) }
        do throws(Problem) {
            return try await run(name, account, address, submission)
        } catch {
            guard error.code == .operationInProgress, isAlone(position) else { throw error }
            throw await patient(error, position)
        }
    }

    /// The refusal of a call that does not run in this process: nobody but its hold's expiry will
    /// end it, so that an earlier try is in vain.
    private func patient(_ refusal: Problem, _ position: OperationPosition) async -> Problem {
        guard let rest = try? await authority.timeToExpiry(of: position) else { return refusal }
        var refusal = refusal
        let end = rest.secondsRoundedUp + expiryInterval.secondsRoundedUp
        refusal.retryAfter = min(max(1, end), Self.longestRetryAfter)
        return refusal
    }

    /// The longest wait that a client is told, in seconds: clients heed no longer one.
    package static let longestRetryAfter = 60

    private func isAlone(_ position: OperationPosition) -> Bool {
        state.withLock { $0.present[position] == 1 }
    }

    private func leave(_ position: OperationPosition) {
        state.withLock { state in
            let others = (state.present[position] ?? 1) - 1
            state.present[position] = others > 0 ? others : nil
        }
    }

    private func run(
        _ name: String,
        _ account: Identifier,
        _ address: String?,
        _ submission: Submission<FunctionRequest<JSONValue>>
    ) async throws(Problem) -> Answer {
        let function = try function(name)
        let prepared: Result<PreparedCall, Problem> = submission.content.flatMap { request in
            Result { () throws(Problem) in try Self.prepare(request, for: function) }
        }
        // One who has no place is told so only if the call is not known under its key already.
        let place = isStopped ? nil : try? slots.take(account: account, address: address)
        let terms = prepared.map { prepared in
            CallTerms(
                function: name,
                hold: prepared.hold,
                life: max(authority.settings.holdLife, prepared.life),
                unavailable: prepared.unavailable ?? (place == nil ? .noSlot : nil)
            )
        }
        let start = try await authority.start(
            account,
            Submission(key: submission.key, fingerprint: submission.fingerprint, content: terms)
        )
        switch start {
        case .replayed(let answer):
            return answer
        case .accepted(let call):
            let prepared = try prepared.get()
            return try await answer(of: call, name, prepared, place).get()
        }
    }

    /// Runs an accepted call, and waits for its end or for ``abandon()``.
    private func answer(
        of call: AcceptedCall,
        _ name: String,
        _ prepared: PreparedCall,
        _ place: SharedPool.Place?
    ) async -> Result<Answer, Problem> {
        await withCheckedContinuation { continuation in
            let (number, isStopped) = state.withLock { state in
                state.lastCall += 1
                state.running += 1
                if !state.isStopped { state.waiting[state.lastCall] = continuation }
                return (state.lastCall, state.isStopped)
            }
            if isStopped { continuation.resume(returning: .failure(.stopping)) }
            // Unstructured on purpose: the charge must not be cancelled with the request.
            Task { [self] in
                let result = await Result { () async throws(Problem) in
                    try await finish(call, name, prepared)
                }
                place?.leave()
                let waiting = state.withLock { $0.waiting.removeValue(forKey: number) }
                waiting?.resume(returning: result)
                ended()
            }
        }
    }

    /// Ends all waiting for calls that still run: who waits is told to come again with the same
    /// key, and the call goes on for as long as the process does.
    ///
    /// What is not settled then is settled or released by whoever uses the storage next.
    package func abandon() {
        let (waiting, whenIdle) = state.withLock { state in
            state.isStopped = true
            let taken = (Array(state.waiting.values), state.whenIdle)
            state.waiting = [:]
            state.whenIdle = nil
            return taken
        }
        for continuation in waiting { continuation.resume(returning: .failure(.stopping)) }
        whenIdle?.resume()
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Reads what a call asks for.
    ///
    /// A member that no function heeds yet is refused: whoever sends it counts on its effect, and
    /// would pay for less.
    private static func prepare(
        _ request: FunctionRequest<JSONValue>,
        for function: any MeteredFunction
    ) throws(Problem) -> PreparedCall {
        guard request.thread == nil else {
            throw Problem(.invalidContent, "Leave 'thread' out: the function keeps no history.")
        }
        guard request.attachments?.isEmpty ?? true else {
            throw Problem(.invalidContent, "Leave 'attachments' out: the function takes none.")
        }
        return try function.prepare(FunctionInput(request.input))
    }

    private func function(_ name: String) throws(Problem) -> any MeteredFunction {
        guard let function = functions().first(where: { $0.name == name }) else {
            throw Problem(.notFound, "Use a name that GET /v1/functions lists.")
        }
        return function
    }

    private func finish(
        _ call: AcceptedCall,
        _ name: String,
        _ prepared: PreparedCall
    ) async throws(Problem) -> Answer {
        let end: CallEnd
        do throws(CallFault) {
            guard try await mayLeave(call, prepared) else { throw CallFault.failed(.expiredUnsent) }
            let outcome = try await perform(prepared)
            end = Self.success(call, outcome)
            estimates.learn(outcome.charge, of: name)
            reports.ended(name, "succeeded")
        } catch {
            reports.ended(name, error.problem.code.rawValue)
            switch error {
            case .failed(let problem): end = .failed(problem)
            case .withdrawn(let problem): throw problem
            }
        }
        return try await persist { () async throws(Problem) in
            try await authority.settle(call, end)
        }
    }

    private static func success(_ call: AcceptedCall, _ outcome: PreparedCall.Outcome) -> CallEnd {
        .succeeded(charge: outcome.charge) { balance in
            AnswerEncoder.encode(
                FunctionResult(
                    output: outcome.output,
                    charged: outcome.charge,
                    tokensRemaining: balance.available,
                    held: balance.held,
                    head: balance.head,
                    cached: false,
                    operation: call.operation
                )
            )
        }
    }

    private func perform(_ prepared: PreparedCall) async throws(CallFault) -> PreparedCall.Outcome {
        do throws(Problem) {
            var outcome = try await prepared.run(CallContext(account: nil))
            outcome.charge = min(max(0, outcome.charge), prepared.hold)
            return outcome
        } catch {
            throw .failed(error)
        }
    }

    /// Records that the call leaves now, or takes it back if the storage does not.
    private func mayLeave(
        _ call: AcceptedCall,
        _ prepared: PreparedCall
    ) async throws(CallFault) -> Bool {
        guard prepared.isSent else { return true }
        do throws(Problem) {
            return try await authority.markSent(call)
        } catch let reason {
            do throws(Problem) {
                try await persist { () async throws(Problem) in try await authority.withdraw(call) }
            } catch {
                throw .withdrawn(error)
            }
            throw .withdrawn(reason)
        }
    }

    /// Changes an accepted call, and tries again while the storage is busy or failing: the hold's
    /// expiry is the last resort.
    ///
    /// - Throws: `operation_in_progress` for a storage that stays overloaded, because the call was
    ///   accepted, and 503 would say that nothing was changed; all else as it is.
    private func persist<Value>(
        _ change: () async throws(Problem) -> Value
    ) async throws(Problem) -> Value {
        var attempt = 1
        while true {
            do throws(Problem) {
                return try await change()
            } catch {
                guard error.code == .overloaded || error.code == .internalFault else { throw error }
                reports.notStored(error, attempt)
                guard attempt < Self.persistAttempts else {
                    throw error.code == .overloaded ? .endUnknown : error
                }
            }
            try? await delay.sleep(for: .milliseconds(100 << attempt))
            attempt += 1
        }
    }

    /// How often the end of a call is tried to be stored: over 6.2 seconds.
    private static let persistAttempts = 6

    private func ended() {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.running -= 1
            guard state.running == 0 else { return nil }
            defer { state.whenIdle = nil }
            return state.whenIdle
        }
        waiter?.resume()
    }
}

/// Why an accepted call has no result.
private enum CallFault: Error {
    /// It failed: its hold is released, and the problem is its answer under its key.
    case failed(Problem)
    /// It was taken back, or is left to its hold's expiry: nothing is stored under its key.
    case withdrawn(Problem)

    var problem: Problem {
        switch self {
        case .failed(let problem), .withdrawn(let problem): problem
        }
    }
}

extension Problem {
    fileprivate static var stopping: Problem {
        Problem(
            .overloaded,
            "The server stops: send the call again with the same key, which gets its end.",
            retryAfter: 1
        )
    }

    fileprivate static var noSlot: Problem {
        Problem(
            .overloaded,
            """
            Send the call again, with the same key, when calls of this account or of others have \
            ended.
            """,
            retryAfter: 1
        )
    }

    fileprivate static var endUnknown: Problem {
        Problem(
            .operationInProgress,
            "Wait, then send the same request with the same key to get its answer.",
            retryAfter: 1
        )
    }

    fileprivate static var expiredUnsent: Problem {
        Problem(
            .upstreamTimeout,
            "Call again with a new key: the call waited longer than its hold."
        )
    }

    /// The answer of a call whose upstream took too long.
    package static var upstreamTooSlow: Problem {
        Problem(
            .upstreamTimeout,
            "Nothing was charged. Call again with a new key, perhaps with a shorter question."
        )
    }

    /// The answer of a call whose upstream failed: nothing of what it said.
    package static var upstreamFailed: Problem {
        Problem(.upstreamFailed, "Nothing was charged. Call again later, with a new key.")
    }
}

extension Result {
    /// The value or the error of an asynchronous body with a typed error.
    fileprivate init(_ body: () async throws(Failure) -> Success) async {
        do {
            self = .success(try await body())
        } catch {
            self = .failure(error)
        }
    }
}
