package import SanguineModel
import Synchronization

/// Runs metered functions: accepts, calls, settles.
///
/// A call is recognized by its key first, then answered from what is kept, then held for, and then
/// run, alone or with identical ones. Once it is accepted it goes to its end in a task of its own:
/// a client that hangs up cancels nothing, unless the function says so. What the upstream was asked
/// to make is paid for, and the answer is kept under the key.
///
/// Invariants:
///
/// 1. Every accepted call is settled or withdrawn exactly once. One that ends while the storage
///    fails is settled later, see ``settleEnded()``, or left to its hold's expiry past the limits
///    of that. It is never answered like a refusal that changed nothing.
/// 2. At most ``limit`` runs go on at a time, of one account a quarter of them. More wait for their
///    turn, within a limit; past it calls are refused.
/// 3. ``waitUntilIdle()`` returns only when no call runs any more, so that a graceful shutdown
///    loses none, or when ``abandon()`` ends the patience.
package final class CallRunner: Sendable {
    /// What is told of calls, for logs and metrics.
    package struct Reports: Sendable {
        /// A run of a function has ended: `succeeded`, or the code of its problem.
        package var ended: @Sendable (_ function: String, _ outcome: String) -> Void
        /// The end of a call could not be stored, at that attempt.
        package var notStored: @Sendable (_ problem: Problem, _ attempt: Int) -> Void
        /// The end of a call will not be stored by this process: the expiry of its hold ends it.
        package var left: @Sendable (_ call: AcceptedCall) -> Void
        /// A call was answered: from what was kept, with a run of its own, or with that of another.
        package var answered: @Sendable (_ function: String, _ from: CallReply.Origin) -> Void
        /// A streamed run has made its first part, so long after its call was accepted.
        package var began: @Sendable (_ function: String, _ after: Duration) -> Void

        /// Creates reports to nobody.
        package init() {
            ended = { _, _ in }
            notStored = { _, _ in }
            left = { _ in }
            answered = { _, _ in }
            began = { _, _ in }
        }
    }

    /// How much is taken at a time.
    package struct Limits: Sendable {
        /// Runs at a time.
        package var running: Int
        /// Calls that wait for their turn or share a run.
        ///
        /// Default: four times as many as run.
        package var waiting: Int
        /// How long a call waits for its turn.
        ///
        /// Default: 60 s.
        package var queueTime: Duration
        /// Bytes of kept answers in memory.
        ///
        /// Default: 32 MiB.
        package var memoryBytes: Int
        /// Bytes of an answer that is kept.
        ///
        /// Default: 64 KiB.
        package var keptBytes: Int
        /// Bytes of the files of calls that run or wait for their turn; more are refused.
        ///
        /// One account gets a half, and a call no more than that. Default: 256 MiB.
        package var fileBytes: Int
        /// After how long without a part a reader is told that there was none.
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

    /// How many runs go on at a time.
    package var limit: Int { limits.running }

    let services: RunServices
    let limits: Limits
    let functions: @Sendable () -> [any MeteredFunction]
    /// The time by which the sweep goes.
    let sweepTime = Mutex(ConfirmedTime())
    private let expiryInterval: Duration
    private let repeats = RepeatGuard()
    /// The calls that are accepted and not settled.
    private let places: SharedPool
    /// Those who read streamed answers.
    private let readers: SharedPool
    /// Runs that go on although nobody reads them.
    private let drains: DrainPool
    /// Bytes of the files that runs work on.
    private let files: SharedPool

    /// The share of the calls that one account may have: a quarter.
    package static let accountShare = 4

    /// Creates a runner.
    ///
    /// - Parameters:
    ///   - authority: What accepts and settles.
    ///   - functions: The functions that there are now; of several with one name the first counts.
    ///   - limits: How much is taken at a time.
    ///   - expiryInterval: How often holds are looked at whose time is over.
    ///   - delay: The clock that waits.
    ///   - executor: Where a run goes on that is begun on this thread. Default: anywhere.
    ///   - reports: What is told of calls. Default: nothing.
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
        places = SharedPool(limit: all, accountShare: max(1, all / Self.accountShare))
        readers = SharedPool(limit: all, accountShare: max(1, all / Self.accountShare))
        drains = DrainPool(limit: limits.running, accountShare: share)
        files = SharedPool(limit: limits.fileBytes, accountShare: limits.fileBytes / 2)
        let tier = ResultTier(bytes: limits.memoryBytes)
        services = RunServices(
            authority: authority,
            queue: CallQueue(limit: limits.running, accountShare: share),
            calls: LiveCalls(),
            unsettled: UnsettledCalls(),
            flights: FlightTable(over: tier),
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
    }

    private var authority: Authority { services.authority }

    /// What is said of the functions.
    package var descriptions: [FunctionDescription] { functions().map(\.description) }

    /// Runs that go on, and calls that wait for their turn.
    package var counts: (running: Int, waiting: Int) { services.queue.counts }

    /// Waits for the calls that still run, or for ``abandon()``, which may have been before.
    package func waitUntilIdle() async {
        await services.calls.waitUntilIdle(unlessStopped: true)
    }

    /// Waits for the calls that still run although nobody waits for them, or for the next
    /// ``abandon()``.
    package func waitForLast() async {
        await services.calls.waitUntilIdle(unlessStopped: false)
    }

    /// Ends all waiting for calls that still run: who waits is told to come again with the same
    /// key, and the call goes on for as long as the process does.
    ///
    /// What is not settled then is settled or released by whoever uses the storage next.
    package func abandon() { services.calls.abandon() }

    /// What a call would cost.
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

    /// Calls a function, or gives the answer of the same call again.
    ///
    /// - Parameters:
    ///   - name: The function's name.
    ///   - identity: Who calls.
    ///   - address: Where the request came from, for its share of the calls.
    ///   - submission: The call under its key.
    ///   - reader: How the answer is wanted. Default: in one piece.
    /// - Returns: The answer, or its parts as they come.
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `quota_exhausted`, `insufficient_tokens`,
    ///   `upstream_missing`, `overloaded`, `rate_limited`. A call that was accepted and failed is
    ///   an answer, with its problem. One whose end the storage does not take is
    ///   `operation_in_progress` or `internal_fault`: the same key gets its end.
    package func call(
        _ name: String,
        _ identity: Identity,
        from address: String? = nil,
        _ submission: Submission<FunctionRequest<JSONValue>>,
        as reader: CallReader = .plain
    ) async throws(Problem) -> CallReply {
        try await call(try function(name), identity, address, submission, reader)
    }

    /// Calls a function that need not be one of the list.
    package func call(
        _ function: any MeteredFunction,
        _ identity: Identity,
        _ address: String?,
        _ submission: Submission<FunctionRequest<JSONValue>>,
        _ reader: CallReader
    ) async throws(Problem) -> CallReply {
        let position = OperationPosition(account: identity.account, key: submission.key)
        services.calls.enter(position)
        defer { services.calls.leave(position) }
        do throws(Problem) {
            return try await CallAttempt(
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
                let place = try readerPlace(identity.account, address)
                return .events(follow(call, after: reader.after, place), .shared)
            }
            // It may have ended since it was looked up.
            if let row = try? await authority.operation(position),
                case .done(let answer) = row.state
            {
                return replay(answer, run: row.run, as: reader)
            }
            // One that has ended is settled soon.
            guard services.calls.isAlone(position), !services.unsettled.contains(position) else {
                throw error
            }
            throw await patient(error, position)
        }
    }

    /// The refusal of a call that does not run in this process: nobody but its hold's expiry will
    /// end it, so that an earlier try is in vain.
    func patient(_ refusal: Problem, _ position: OperationPosition) async -> Problem {
        guard let rest = try? await authority.timeToExpiry(of: position) else { return refusal }
        var refusal = refusal
        let end = rest.secondsRoundedUp + expiryInterval.secondsRoundedUp
        refusal.retryAfter = min(max(1, end), Self.longestRetryAfter)
        return refusal
    }

    /// The longest wait that a client is told, in seconds: clients heed no longer one.
    package static let longestRetryAfter = 60

    /// Reads what a call asks for.
    ///
    /// A member that no function heeds yet is refused: whoever sends it counts on its effect, and
    /// would pay for less.
    ///
    /// - Throws: `invalid_content` for a thread, for files that the function's rules do not allow
    ///   or the account does not have, and for the input.
    func prepare(
        _ request: FunctionRequest<JSONValue>,
        of account: Identifier,
        for function: any MeteredFunction,
        settings: [String: JSONValue] = [:]
    ) async throws(Problem) -> PreparedCall {
        try CallInput.check(request, function.rules)
        guard request.thread == nil else {
            throw Problem(.invalidContent, "Leave 'thread' out: the function keeps no history.")
        }
        let judge = CallAttachments(function.rules, atMost: files.accountShare)
        let ids = try judge.ids(request.attachments ?? [])
        guard !ids.isEmpty else {
            return try function.prepare(FunctionInput(request.input, settings: settings))
        }
        let files = try judge.check(ids, try await authority.blobs(ids, of: account))
        var prepared = try function.prepare(
            FunctionInput(request.input, attachments: files, settings: settings)
        )
        prepared.attachments = files
        return prepared
    }

    private func function(_ name: String) throws(Problem) -> any MeteredFunction {
        guard let function = functions().first(where: { $0.name == name }) else {
            throw Problem(.notFound, "Use a name that GET /v1/functions lists.")
        }
        return function
    }
}

// What a call takes for its time.
extension CallRunner {
    /// A place among the calls that are accepted; `nil` if there is none.
    func place(_ account: Identifier, _ address: String?) -> SharedPool.Place? {
        services.calls.isStopped ? nil : try? places.take(account: account, address: address)
    }

    /// Room for the files of a call, which its run has in memory; `nil` if there is none.
    func fileRoom(
        _ prepared: PreparedCall,
        _ account: Identifier,
        _ address: String?
    ) -> SharedPool.Place? {
        let bytes = prepared.attachments.reduce(0) { $0 + $1.size }
        return try? files.take(bytes, account: account, address: address)
    }

    /// Counts a call among those that are the same.
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

    /// A call that was counted was not made.
    func takeBack(_ repetition: RepeatGuard.Receipt) { repeats.takeBack(repetition) }

    /// A run that nobody reads any more goes on or is stopped, as its function declares.
    func unread(
        _ flight: Flight,
        of name: String,
        _ rules: FunctionRules,
        _ account: Identifier
    ) {
        let limit = rules.onDisconnect == .drain ? rules.limits.drains : 0
        if let place = drains.take(name, limit: limit, account: account) {
            flight.drain(place)
        } else {
            flight.cancel(.interrupted)
        }
    }

    /// A place among those who read streamed answers.
    ///
    /// - Throws: `overloaded`.
    func readerPlace(
        _ account: Identifier,
        _ address: String?
    ) throws(Problem) -> SharedPool.Place {
        do throws(SharedPool.Refusal) {
            return try readers.take(account: account, address: address)
        } catch {
            throw Problem(
                .overloaded,
                "Close other streams of answers, then ask for this one again with its key.",
                retryAfter: 1
            )
        }
    }

    /// Gives the parts of a call that runs.
    func follow(
        _ call: RunningCall,
        after index: Int64?,
        _ place: SharedPool.Place
    ) -> CallEvents {
        CallEvents(
            call,
            after: index,
            authority,
            place,
            pingInterval: limits.pingInterval,
            deadlines: services.deadlines,
            delay: services.delay
        )
    }

    /// Gives the answer of a call that has ended, in one piece or in its parts.
    func reply(
        _ answer: Answer,
        run: Identifier?,
        _ origin: CallReply.Origin,
        as reader: CallReader
    ) -> CallReply {
        guard case .parts(let index) = reader else { return .answer(answer, origin) }
        let events = CallEvents(
            answer.stored,
            run: run,
            after: index,
            authority,
            delay: services.delay
        )
        return .events(events, origin)
    }

    /// Gives the answer of a call again.
    func replay(
        _ answer: StoredAnswer,
        run: Identifier?,
        as reader: CallReader
    ) -> CallReply {
        reply(Answer(answer, replayed: true), run: run, .replayed, as: reader)
    }
}
