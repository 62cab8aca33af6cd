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
/// 1. Every accepted call is settled exactly once, or left to its hold's expiry if the storage
///    fails.
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
    ///   `overloaded`. A call that was accepted and failed is an answer, with its problem.
    func call(
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

    private func unavailable(
        _ prepared: ServedFunction.Prepared,
    /// How long the hold of a call lasts: longer than the call can, or its answer would be lost.
    private func life(of prepared: ServedFunction.Prepared) -> Duration {
        switch prepared.work {
        case .echo: max(holdLife, .milliseconds(2 * ServedFunction.echoDelay.upperBound))
        case .upstream: max(holdLife, upstreamTimeout + .seconds(60))
        }
    }

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
        do {
            let (text, charge) = try await perform(call, function, prepared)
            end = .succeeded(charge: charge) { balance in
                Answers.encode(
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
            outcomes(name, error.code.rawValue)
            end = .failed(error)
        }
        return try await settle(call, end)
    }

    private func perform(
        _ call: AcceptedCall,
        _ function: ServedFunction,
        _ prepared: ServedFunction.Prepared
    ) async throws(Problem) -> (text: String, charge: Int64) {
        switch prepared.work {
        case .echo(let text, let time):
            if time > .zero { try? await delay.sleep(for: time) }
            return (text, function.pricing.most(promptBytes: 0))
        case .upstream(let prompt):
            guard let upstream, try await authority.markSent(call) else { throw .expiredUnsent }
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
                throw Problem(upstream: error)
            }
        }
    }

    /// Settles, and tries again if the storage is busy: the hold's expiry is the last resort.
    private func settle(_ call: AcceptedCall, _ end: CallEnd) async throws(Problem) -> Answer {
        var attempt = 1
        while true {
            do {
                return try await authority.settle(call, end)
            } catch {
                guard error.status >= 500, attempt < Self.settleAttempts else { throw error }
                logger.error("A call could not be settled yet", metadata: ["code": "\(error.code)"])
            }
            try? await delay.sleep(for: .milliseconds(100 << attempt))
            attempt += 1
        }
    }

    private static let settleAttempts = 6

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

extension Problem {
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
