package import SanguineModel
import Synchronization

/// Runs metered functions: accepts calls, runs them, and settles them.
///
/// A call is recognized by its key, then answered from the cache, or held for and run, alone or
/// together with identical calls. An accepted call runs to its end in its own task: a client that
/// disconnects cancels nothing, unless the function declares it. The requested output is charged,
/// and the answer is stored under the key.
///
/// Invariants:
///
/// 1. Every accepted call is settled or withdrawn exactly once. If the storage fails at the end of
///    a call, the call is settled later, see ``settleEnded()``, or is left to its hold's expiry
///    beyond the limits. Its answer never claims that nothing was changed.
/// 2. At most ``limit`` runs are active at a time, a quarter of them for one account. Further calls
///    wait for their turn, up to a limit, beyond which calls are refused.
/// 3. ``waitUntilIdle()`` returns only when no call is running, so that a graceful shutdown loses
///    none, or after ``abandon()``.
package final class CallRunner: Sendable {
    /// Observers of calls, for logs and metrics.
    package struct Reports: Sendable {
        /// Called at the end of a run with `succeeded`, or with the code of its problem.
        package var ended: @Sendable (_ function: String, _ outcome: String) -> Void
        /// Called when an attempt to store the end of a call has failed.
        package var notStored: @Sendable (_ problem: Problem, _ attempt: Int) -> Void
        /// Called when this process gives up storing the end of a call; its hold's expiry ends it.
        package var left: @Sendable (_ call: AcceptedCall) -> Void
        /// Called when a call is answered, with the origin of the answer.
        package var answered: @Sendable (_ function: String, _ from: CallReply.Origin) -> Void
        /// Called for the first part of a streamed run, with the time since its call was accepted.
        package var began: @Sendable (_ function: String, _ after: Duration) -> Void

        /// Creates observers that do nothing.
        package init() {
            ended = { _, _ in }
            notStored = { _, _ in }
            left = { _ in }
            answered = { _, _ in }
            began = { _, _ in }
        }
    }

    /// The limits of a runner.
    package struct Limits: Sendable {
        /// The number of concurrent runs.
        package var running: Int
        /// The number of calls that wait for their turn or share a run.
        ///
        /// Default: four times ``running``.
        package var waiting: Int
        /// The longest time that a call waits for its turn.
        ///
        /// Default: 60 s.
        package var queueTime: Duration
        /// The maximum size in bytes of cached answers in memory.
        ///
        /// Default: 32 MiB.
        package var memoryBytes: Int
        /// The largest size of a cached answer in bytes.
        ///
        /// Default: 64 KiB.
        package var keptBytes: Int
        /// The maximum size in bytes of the files of running and waiting calls; further ones are
        /// refused.
        ///
        /// One account, or call, gets at most half of it. Default: 256 MiB.
        package var fileBytes: Int
        /// The time without a part after which a reader receives a ping.
        ///
        /// Default: 20 s.
        package var pingInterval: Duration

        /// Creates limits.
        package init(
            running: Int,
            waiting: Int? = nil,
            queueTime: Duration = .seconds(60),
            memoryBytes: Int = 32 << 20,
            keptBytes: Int = 64 << 10,
            fileBytes: Int = 256 << 20,
            pingInterval: Duration = .seconds(20)
        ) {
            self.running = running
            self.waiting = waiting ?? 4 * running
            self.queueTime = queueTime
            self.memoryBytes = memoryBytes
            self.keptBytes = keptBytes
            self.fileBytes = fileBytes
            self.pingInterval = pingInterval
        }
    }

    /// The number of concurrent runs.
    package var limit: Int { limits.running }

    /// Returns the time until which rows count as expired; see ``ConfirmedTime``.
    func confirmedTime() -> Timestamp {
        let (now, uptime) = (services.authority.clock.now(), services.uptime())
        return sweepTime.withLock { $0.read(now, at: uptime) }
    }

    let services: RunServices
    let limits: Limits
    let functions: @Sendable () -> [any MeteredFunction]
    /// The time for sweeps.
    private let sweepTime = Mutex(ConfirmedTime())
    private let expiryInterval: Duration
    private let repeats = RepeatGuard()
    /// The calls that are accepted and not settled.
    private let permits: SharedPool
    /// The readers of streamed answers.
    private let readers: SharedPool
    /// The runs that continue without readers.
    private let drains: DrainPool
    /// The memory for the files of runs, in bytes.
    private let files: SharedPool

    /// The share of calls that one account may have: a quarter.
    package static let accountShare = 4

    /// Creates a runner.
    ///
    /// - Parameters:
    ///   - authority: The authority that accepts and settles calls.
    ///   - functions: Returns the current functions; if several have the same name, the first one
    ///     counts.
    ///   - limits: The limits.
    ///   - expiryInterval: The interval at which expired holds are ended.
    ///   - delay: The clock for delays.
    ///   - executor: Returns the executor for a run that starts on this thread. Default: any.
    ///   - reports: Observers of calls. Default: none.
    package init(
        authority: Authority,
        functions: @escaping @Sendable () -> [any MeteredFunction],
        limits: Limits,
        expiryInterval: Duration,
        delay: any Clock<Duration>,
        executor: @escaping @Sendable () -> (any TaskExecutor)? = { nil },
        reports: Reports = Reports()
    ) {
        self.functions = functions
        self.limits = limits
        self.expiryInterval = expiryInterval
        let share = max(1, limits.running / Self.accountShare)
        let all = limits.running + limits.waiting
        permits = SharedPool(limit: all, accountShare: max(1, all / Self.accountShare))
        readers = SharedPool(limit: all, accountShare: max(1, all / Self.accountShare))
        drains = DrainPool(limit: limits.running, accountShare: share)
        files = SharedPool(limit: limits.fileBytes, accountShare: limits.fileBytes / 2)
        let tier = ResultMemoryCache(bytes: limits.memoryBytes)
        services = RunServices(
            authority: authority,
            queue: CallQueue(limit: limits.running, accountShare: share),
            calls: RunningCalls(),
            unsettled: UnsettledCalls(),
            sharedRuns: SharedRunTable(over: tier),
            tier: tier,
            estimates: CostEstimates(),
            delay: delay,
            reports: reports,
            queueTime: limits.queueTime,
            keptBytes: limits.keptBytes,
            uptime: Stopwatch(delay).elapsed,
            deadlines: Deadlines(delay),
            executor: executor
        )
        authority.merges.add { [calls = services.calls, unsettled = services.unsettled] in
            calls.rehome($0, to: $1)
            unsettled.rehome($0, to: $1)
        }
    }

    private var authority: Authority { services.authority }

    /// The descriptions of the functions.
    package var descriptions: [FunctionDescription] { functions().map(\.description) }

    /// The numbers of active runs, and of calls that wait for their turn.
    package var counts: (running: Int, waiting: Int) { services.queue.counts }

    /// Waits until no call is running; returns at once after ``abandon()``.
    package func waitUntilIdle() async {
        await services.calls.waitUntilIdle(unlessStopped: true)
    }

    /// Waits until no call is running, including calls that no client waits for, or until the next
    /// ``abandon()``.
    package func waitForLast() async {
        await services.calls.waitUntilIdle(unlessStopped: false)
    }

    /// Stops all waiting for running calls: clients get an error that asks them to retry with the
    /// same key, and the calls continue for as long as the process runs.
    ///
    /// Calls that are not settled by then are settled or released by the next process that opens
    /// the storage.
    package func abandon() { services.calls.abandon() }

    /// Returns the price of a call.
    ///
    /// - Throws: `not_found`, `invalid_content`.
    package func quote(
        _ name: String,
        _ identity: Identity,
        _ body: Result<FunctionRequest<JSONValue>, Problem>
    ) async throws(Problem) -> Quote {
        let function = try function(name)
        let (request, cache) = (try body.get(), function.rules.cache)
        var settings: [String: JSONValue] = [:]
        if case .facts = cache.lifetime {
            settings = cache.facts(of: try await authority.profile(identity.account))
        }
        let prepared = try await prepare(
            request,
            of: identity.account,
            for: function,
            settings: settings
        )
        var quote = Quote(
            estimate: min(prepared.hold, services.estimates.estimate(of: name) ?? prepared.guess),
            hold: prepared.hold,
            quota: function.rules.price.quota
        )
        if let price = quote.quota, let tokens = price.otherwise {
            let quotas = try await authority.quotas(identity.account).0.items
            if quotas.first(where: { $0.name == price.name })?.allows(price.units) == false {
                quote.quota = nil
                quote.estimate += tokens
                quote.hold += tokens
            }
        }
        return quote
    }

    /// Calls a function, or returns the answer of an earlier request with the same key.
    ///
    /// - Parameters:
    ///   - name: The function's name.
    ///   - identity: The caller.
    ///   - address: The address of the request, for its share of calls.
    ///   - submission: The call with its key.
    ///   - reader: The form of the answer. Default: in one piece.
    /// - Returns: The answer, or its parts as they arrive.
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `quota_exhausted`, `insufficient_tokens`,
    ///   `upstream_missing`, `overloaded`, `rate_limited`. The failure of an accepted call is an
    ///   answer with its problem. If the storage does not accept the end of a call, it is
    ///   `operation_in_progress` or `internal_fault`, and the same key returns the end later.
    package func call(
        _ name: String,
        _ identity: Identity,
        from address: String? = nil,
        _ submission: Submission<FunctionRequest<JSONValue>>,
        as reader: AnswerForm = .plain
    ) async throws(Problem) -> CallReply {
        try await call(try function(name), identity, address, submission, reader)
    }

    /// Calls a function that may be missing from the list.
    package func call(
        _ function: any MeteredFunction,
        _ identity: Identity,
        _ address: String?,
        _ submission: Submission<FunctionRequest<JSONValue>>,
        _ reader: AnswerForm
    ) async throws(Problem) -> CallReply {
        let position = OperationPosition(account: identity.account, key: submission.key)
        services.calls.beginRequest(position)
        defer { services.calls.endRequest(position) }
        do throws(Problem) {
            return try await CallDispatch(
                runner: self,
                function: function,
                rules: function.rules,
                identity: identity,
                address: address,
                submission: submission,
                reader: reader
            ).perform()
        } catch {
            guard error.code == .operationInProgress else { throw error }
            if let call = services.calls.call(position) {
                guard reader.wantsParts else { throw error }
                let permit = try readerPermit(identity.account, address)
                return .events(follow(call, after: reader.after, permit), .shared)
            }
            // The call may have ended since the lookup.
            if let row = try? await authority.operation(position),
                case .done(let answer) = row.state
            {
                return replay(answer, run: row.run, as: reader)
            }
            // An ended call is settled soon.
            guard services.calls.isAlone(position), !services.unsettled.contains(position) else {
                throw error
            }
            throw await patient(error, position)
        }
    }

    /// Returns the refusal of a call that does not run in this process: only its hold's expiry will
    /// end it, so that an earlier retry would fail.
    func patient(_ refusal: Problem, _ position: OperationPosition) async -> Problem {
        guard let rest = try? await authority.timeToExpiry(of: position) else { return refusal }
        var refusal = refusal
        let end = rest.secondsRoundedUp + expiryInterval.secondsRoundedUp
        refusal.retryAfter = min(max(1, end), Self.longestRetryAfter)
        return refusal
    }

    /// The longest wait in seconds that is sent to clients, which ignore longer ones.
    package static let longestRetryAfter = 60

    /// Decodes and checks the content of a call.
    ///
    /// A member that no function uses yet is refused, because the client would pay without its
    /// effect.
    ///
    /// - Throws: `invalid_content` for a thread, for files that the rules do not allow or that the
    ///   account does not have, and for the input.
    func prepare(
        _ request: FunctionRequest<JSONValue>,
        of account: Identifier,
        for function: any MeteredFunction,
        settings: [String: JSONValue] = [:]
    ) async throws(Problem) -> PreparedCall {
        try CallInput.check(request, function.rules)
        var input = FunctionInput(request.input, settings: settings)
        if let thread = request.thread {
            guard function.rules.keepsHistory else {
                throw Problem(.invalidContent, "Leave 'thread' out: the function keeps no history.")
            }
            input.history = try await ThreadHistory(authority: authority)
                .context(of: thread, account, function.rules.history)
        }
        let judge = CallAttachments(function.rules, atMost: files.accountShare)
        let ids = try judge.ids(request.attachments ?? [])
        if !ids.isEmpty {
            input.attachments = try judge.check(ids, try await authority.blobs(ids, of: account))
        }
        var prepared = try function.prepare(input)
        prepared.attachments = input.attachments
        prepared.context = input.history.fingerprint
        return prepared
    }

    private func function(_ name: String) throws(Problem) -> any MeteredFunction {
        guard let function = functions().first(where: { $0.name == name }) else {
            throw Problem(.notFound, "Use a name that GET /v1/functions lists.")
        }
        return function
    }
}

// The resources that a call takes while it is active.
extension CallRunner {
    /// Acquires a permit for an accepted call; returns `nil` if there is none.
    func acquirePermit(_ account: Identifier, _ address: String?) -> SharedPool.Permit? {
        services.calls.isStopped ? nil : try? permits.acquire(account: account, address: address)
    }

    /// Acquires memory for the files of a call; returns `nil` if there is not enough.
    func fileRoom(
        _ prepared: PreparedCall,
        _ account: Identifier,
        _ address: String?
    ) -> SharedPool.Permit? {
        let bytes = prepared.attachments.reduce(0) { $0 + $1.size }
        return try? files.acquire(bytes, account: account, address: address)
    }

    /// Counts a call as a repetition of equal ones.
    ///
    /// - Throws: `rate_limited`.
    func countRepeat(
        _ name: String,
        _ rules: FunctionRules,
        _ account: Identifier,
        _ call: PreparedCall
    ) throws(Problem) -> RepeatGuard.Receipt? {
        try repeats.count(
            name,
            account,
            call.input,
            call.attachments,
            limit: rules.limits.repeatsPerMinute,
            at: services.uptime()
        )
    }

    /// Removes a call that was not made from the count.
    func uncount(_ repetition: RepeatGuard.Receipt) { repeats.uncount(repetition) }

    /// Continues or stops a run without readers, as its function declares.
    func unread(
        _ sharedRun: SharedRun,
        of name: String,
        _ rules: FunctionRules,
        _ account: Identifier
    ) {
        let limit = rules.onDisconnect == .drain ? rules.limits.drains : 0
        if let permit = drains.acquire(name, limit: limit, account: account) {
            sharedRun.drain(permit)
        } else {
            sharedRun.cancel(.interrupted)
        }
    }

    /// Acquires a permit for a reader of a streamed answer.
    ///
    /// - Throws: `overloaded`.
    func readerPermit(
        _ account: Identifier,
        _ address: String?
    ) throws(Problem) -> SharedPool.Permit {
        do throws(SharedPool.Refusal) {
            return try readers.acquire(account: account, address: address)
        } catch {
            throw Problem(
                .overloaded,
                "Close other streams of answers, then request this one again with its key.",
                retryAfter: 1
            )
        }
    }

    /// Returns the parts of a running call.
    func follow(
        _ call: RunningCall,
        after index: Int64?,
        _ permit: SharedPool.Permit
    ) -> CallEventStream {
        CallEventStream(
            call,
            after: index,
            authority,
            permit,
            pingInterval: limits.pingInterval,
            deadlines: services.deadlines,
            delay: services.delay
        )
    }

    /// Returns the answer of a call that has ended, in one piece or in parts.
    func reply(
        _ answer: Answer,
        run: Identifier?,
        _ origin: CallReply.Origin,
        as reader: AnswerForm
    ) -> CallReply {
        guard case .parts(let index) = reader else { return .answer(answer, origin) }
        let events = CallEventStream(
            answer.stored,
            run: run,
            after: index,
            authority,
            delay: services.delay
        )
        return .events(events, origin)
    }

    /// Returns the stored answer to a repeated call.
    func replay(
        _ answer: StoredAnswer,
        run: Identifier?,
        as reader: AnswerForm
    ) -> CallReply {
        reply(Answer(answer, replayed: true), run: run, .replayed, as: reader)
    }
}
