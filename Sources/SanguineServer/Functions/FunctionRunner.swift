import Logging
import Metrics
import SanguineAuthority
import SanguineModel
import ServiceLifecycle
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
/// 2. At most ``limit`` calls run at a time.
/// 3. ``run()`` returns only when no call runs any more, so that a graceful shutdown loses none.
final class FunctionRunner: Service {
    let descriptions: [FunctionDescription]
    let limit: Int

    private let functions: [String: ServedFunction]
    private let authority: Authority
    private let upstream: UpstreamClient?
    private let holdLife: Duration
    private let upstreamTimeout: Duration
    private let delay: any Clock<Duration>
    private let logger: Logger
    private let estimates = CostEstimates()
    private let outcomes: @Sendable (_ function: String, _ outcome: String) -> Void

    // Guarded by the mutex: whether a call may begin is decided before the handler suspends.
    private struct State {
        var running = 0
        /// How many requests of this process are about a call now: its run and its repetitions.
        var present: [OperationPosition: Int] = [:]
        var whenIdle: CheckedContinuation<Void, Never>?
    }
    private let state = Mutex(State())

    init(
        settings: ServerSettings,
        authority: Authority,
        upstream: UpstreamClient?,
        delay: any Clock<Duration>,
        metrics: any MetricsFactory,
        logger: Logger
    ) {
        let served = settings.functions.map(ServedFunction.init)
        functions = Dictionary(served.map { ($0.setting.name, $0) }) { first, _ in first }
        descriptions = served.map(\.description)
        limit = settings.limits.functionCalls
        holdLife = settings.holdsDuration
        upstreamTimeout = settings.upstream.timeout
        self.authority = authority
        self.upstream = upstream
        self.delay = delay
        self.logger = logger
        outcomes = { function, outcome in
            let labels = [("function", function), ("outcome", outcome)]
            Counter(label: "function_calls", dimensions: labels, factory: metrics).increment()
        }
    }

    /// Waits for the graceful shutdown, and then for the calls that still run.
    func run() async throws {
        try? await gracefulShutdown()
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard state.running > 0 else { return true }
                state.whenIdle = continuation
                return false
            }
            if isIdle { continuation.resume() }
        }
    }

    /// What a call would cost.
    ///
    /// - Throws: `not_found`, `invalid_content`.
    func quote(
        _ name: String,
        _ body: Result<FunctionRequest<JSONValue>, Problem>
    ) throws(Problem) -> Quote {
        let function = try function(name)
        let prepared = try function.prepare(try body.get().input)
        let most = function.pricing.most(promptBytes: prepared.promptBytes)
        let guess = function.pricing.guess(promptBytes: prepared.promptBytes)
        return Quote(estimate: min(most, estimates.estimate(of: name) ?? guess), hold: most)
    }

    /// Calls a function, or gives the answer of the same call again.
    ///
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `insufficient_tokens`, `upstream_missing`,
    ///   `overloaded`. A call that was accepted and failed is an answer, with its problem. One
    ///   whose end the storage does not take is `operation_in_progress` or `internal_fault`: the
    ///   same key gets its end.
    func call(
        _ name: String,
        _ account: Identifier,
        _ submission: Submission<FunctionRequest<JSONValue>>
    ) async throws(Problem) -> Answer {
        let position = OperationPosition(account: account, key: submission.key)
        state.withLock { $0.present[position, default: 0] += 1 }
        defer { leave(position) }
        do throws(Problem) {
            return try await run(name, account, submission)
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
        let end = rest.secondsRoundedUp + Housekeeping.interval.secondsRoundedUp
        refusal.retryAfter = min(max(1, end), Self.longestRetryAfter)
        return refusal
    }

    /// The longest wait that a client is told, in seconds: clients heed no longer one.
    static let longestRetryAfter = 60

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
        _ submission: Submission<FunctionRequest<JSONValue>>
    ) async throws(Problem) -> Answer {
        let function = try function(name)
        let prepared: Result<ServedFunction.Prepared, Problem> = submission.content.flatMap {
            request in Result { () throws(Problem) in try function.prepare(request.input) }
        }
        let hasSlot = takeSlot()
        var slotIsOurs = hasSlot
        defer { if slotIsOurs { returnSlot() } }
        let terms = prepared.map { prepared in
            CallTerms(
                function: name,
                hold: function.pricing.most(promptBytes: prepared.promptBytes),
                life: life(of: prepared),
                unavailable: unavailable(prepared, hasSlot: hasSlot)
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
            slotIsOurs = false
            // Unstructured on purpose: the charge must not be cancelled with the request.
            let task = Task { [self] in
                defer { returnSlot() }
                return await Result { () async throws(Problem) in
                    try await finish(call, function, prepared)
                }
            }
            return try await task.value.get()
        }
    }

    private func function(_ name: String) throws(Problem) -> ServedFunction {
        guard let function = functions[name] else {
            throw Problem(.notFound, "Use a name that GET /v1/functions lists.")
        }
        return function
    }

    /// How long the hold of a call lasts: longer than the call can, or its answer would be lost.
    private func life(of prepared: ServedFunction.Prepared) -> Duration {
        switch prepared.work {
        case .echo: max(holdLife, .milliseconds(2 * ServedFunction.echoDelay.upperBound))
        case .upstream: max(holdLife, upstreamTimeout + .seconds(60))
        }
    }

    private func unavailable(
        _ prepared: ServedFunction.Prepared,
        hasSlot: Bool
    ) -> Problem? {
        if case .upstream = prepared.work, upstream == nil {
            return Problem(
                .upstreamMissing,
                "Ask the operator to set SANGUINE_UPSTREAM_URL.",
                retryAfter: 60
            )
        }
        guard hasSlot else {
            return Problem(.overloaded, "Send the call again, with the same key.", retryAfter: 1)
        }
        return nil
    }

    private func finish(
        _ call: AcceptedCall,
        _ function: ServedFunction,
        _ prepared: ServedFunction.Prepared
    ) async throws(Problem) -> Answer {
        let name = function.setting.name
        let end: CallEnd
        do throws(CallFault) {
            guard try await mayLeave(call, prepared) else { throw CallFault.failed(.expiredUnsent) }
            let (text, charge) = try await perform(function, prepared)
            end = .succeeded(charge: charge) { balance in
                AnswerEncoder.encode(
                    FunctionResult(
                        output: text,
                        charged: charge,
                        tokensRemaining: balance.available,
                        held: balance.held,
                        head: balance.head,
                        cached: false,
                        operation: call.operation
                    )
                )
            }
            estimates.learn(charge, of: name)
            outcomes(name, "succeeded")
        } catch {
            outcomes(name, error.problem.code.rawValue)
            switch error {
            case .failed(let problem): end = .failed(problem)
            case .withdrawn(let problem): throw problem
            }
        }
        return try await persist { () async throws(Problem) in
            try await authority.settle(call, end)
        }
    }

    /// Records that the call leaves now, or takes it back if the storage does not.
    private func mayLeave(
        _ call: AcceptedCall,
        _ prepared: ServedFunction.Prepared
    ) async throws(CallFault) -> Bool {
        guard case .upstream = prepared.work else { return true }
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

    private func perform(
        _ function: ServedFunction,
        _ prepared: ServedFunction.Prepared
    ) async throws(CallFault) -> (text: String, charge: Int64) {
        switch prepared.work {
        case .echo(let text, let time):
            if time > .zero { try? await delay.sleep(for: time) }
            return (text, function.pricing.most(promptBytes: 0))
        case .upstream(let prompt):
            guard let upstream else { throw .failed(.expiredUnsent) }
            do {
                let answer = try await upstream.complete(prompt)
                let charge = function.pricing.charge(
                    answer.usage.map {
                        Usage(inputTokens: $0.promptTokens, outputTokens: $0.completionTokens)
                    },
                    promptBytes: prepared.promptBytes,
                    answerBytes: answer.text.utf8.count
                )
                return (answer.text, charge)
            } catch {
                logger.warning("The upstream failed", metadata: ["reason": "\(error)"])
                throw .failed(Problem(upstream: error))
            }
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
                let metadata: Logger.Metadata = [
                    "code": "\(error.code.rawValue)", "attempt": "\(attempt)",
                ]
                logger.error("A call could not be settled", metadata: metadata)
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

    private func takeSlot() -> Bool {
        state.withLock { state in
            guard state.running < limit else { return false }
            state.running += 1
            return true
        }
    }

    private func returnSlot() {
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

    /// What a client is told of an upstream that failed: nothing of its answer.
    fileprivate init(upstream error: UpstreamError) {
        if case .timeout = error {
            self.init(
                .upstreamTimeout,
                "Nothing was charged. Call again with a new key, perhaps with a shorter question."
            )
        } else {
            self.init(.upstreamFailed, "Nothing was charged. Call again later, with a new key.")
        }
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
