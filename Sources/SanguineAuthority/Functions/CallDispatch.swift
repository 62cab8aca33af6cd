import SanguineModel

/// Handles one request for a call until it has an answer.
///
/// If the answers of the function are cached, this looks for a cached answer, then for a run that
/// is producing one, and leads a new run only if there is neither. Any other call leads its own
/// run.
struct CallDispatch: Sendable {
    let runner: CallRunner
    let function: any MeteredFunction
    let rules: FunctionRules
    let identity: Identity
    let address: String?
    let submission: Submission<FunctionRequest<JSONValue>>
    let reader: AnswerForm

    private var services: RunServices { runner.services }
    private var authority: Authority { runner.services.authority }
    private var caller: CallQueue.Caller {
        CallQueue.Caller(account: identity.account, address: address)
    }
    private var isStreamed: Bool { reader.wantsParts && rules.streams }
    private var position: OperationPosition {
        OperationPosition(account: identity.account, key: submission.key)
    }

    /// The permits that a call holds while it runs; a missing one is the reason why it cannot run
    /// now.
    private struct Permits {
        var call: SharedPool.Permit?
        var reader: SharedPool.Permit?
        var files: SharedPool.Permit?
        var unavailable: Problem?
    }

    /// The prepared call, before an answer is looked up.
    private struct Question {
        var prepared: PreparedCall
        /// The account's settings that the answer depends on.
        var settings: [String: JSONValue] = [:]
        /// The key of the cached answer; `nil` if the answer is not cached.
        var key: ResultKey?
    }

    func perform() async throws(Problem) -> CallReply {
        try services.calls.check(position, submission.fingerprint)
        let question: Question
        do throws(Problem) {
            // A reader with parts of an answer must not receive the rest of another answer.
            if reader.after != nil { throw .nothingToResume }
            question = try await self.question()
        } catch {
            // A repetition is recognized before its content is validated.
            guard case .replayed(let answer, let run) = try await start(.failure(error)) else {
                throw error
            }
            return reply(answer, run: run, .replayed)
        }
        guard let key = question.key else { return try await lead(question, sharedRun) }
        for _ in 0..<CallLimits.refusedLeaders {
            switch services.sharedRuns.find(key, at: authority.clock.now(), else: { sharedRun }) {
            case .known(let row):
                return try await answer(with: row, question.prepared)
            case .follow(let sharedRun):
                if await sharedRun.election.wait() {
                    return try await follow(sharedRun, question.prepared)
                }
                sharedRun.leave(isUnread: true)
            case .lead(let sharedRun):
                return try await find(question, key, sharedRun)
            }
        }
        // A series of refused leaders must not delay this call: its run is not shared with any
        // other call.
        return try await find(question, key, sharedRun)
    }

    /// Looks for a cached answer in the storage, or leads a run that other calls follow.
    private func find(
        _ question: Question,
        _ key: ResultKey,
        _ sharedRun: SharedRun
    ) async throws(Problem) -> CallReply {
        // If the call was not accepted, or its key was already known, others must not wait for it.
        defer {
            if sharedRun.election.value == nil {
                services.sharedRuns.remove(key, sharedRun)
                sharedRun.election.resolve(false)
            }
        }
        if let row = try await authority.result(key) {
            services.tier.add(row)
            return try await answer(with: row, question.prepared)
        }
        return try await lead(question, sharedRun)
    }

    private var sharedRun: SharedRun {
        let now = authority.clock.now()
        let id = Identifier(at: now)
        let name = function.name
        let turn = services.queue.turn(of: name, rules.limits)
        return SharedRun(id: id, at: now, isStreamed: isStreamed, turn: turn) {
            [runner, rules, identity] sharedRun in
            runner.unread(sharedRun, of: name, rules, identity.account)
        }
    }

    /// Prepares the request.
    ///
    /// The account's settings are read only once, so that the key of the answer matches what the
    /// function receives.
    private func question() async throws(Problem) -> Question {
        let request = try submission.content.get()
        guard rules.cache.lifetime != .none else {
            let prepared = try await runner.prepare(request, of: identity.account, for: function)
            return Question(prepared: prepared)
        }
        let profile = try await authority.profile(identity.account)
        let settings = rules.cache.facts(of: profile)
        let prepared = try await runner.prepare(
            request,
            of: identity.account,
            for: function,
            settings: settings
        )
        let key = ResultKey(
            function.name,
            rules,
            input: prepared.input,
            attachments: prepared.attachments,
            question: prepared.question,
            context: prepared.context,
            identity: identity,
            profile: profile,
            sessionLife: authority.settings.refreshTokenLife,
            now: authority.clock.now()
        )
        return Question(prepared: prepared, settings: settings, key: key)
    }

    // MARK: - Cached answers

    private func answer(
        with row: ResultRow,
        _ prepared: PreparedCall
    ) async throws(Problem) -> CallReply {
        let charge = rules.price.cached ?? 0
        let terms = terms(hold: charge, operation: Identifier(at: authority.clock.now()))
        var records: CallRecords?
        if let own = prepared.records {
            records = await CallRecords(own, of: row.output, for: identity.account) { .failed($0) }
        }
        var message: MessageEnd?
        if terms.question != nil {
            message = await MessageEnd(output: row.output, for: identity.account)
        }
        let (answer, run) = try await authority.answer(
            identity.account,
            submission.with(.success(terms)),
            recording: records,
            leaving: message
        ) { balance, quota in
            ResponseEncoder.result(row.output, charge, true, terms.operation, balance, quota)
        }
        // A replayed answer is returned in the parts of its run, which its readers may already
        // have.
        guard !answer.replayed else { return reply(answer, run: run, .replayed) }
        makeTitle()
        let now = authority.clock.now()
        let origin = CallReply.Origin.cache(
            age: max(.zero, now - row.madeAt),
            rest: row.expiresAt == .never ? nil : max(.zero, row.expiresAt - now)
        )
        services.reports.answered(function.name, origin)
        return reply(answer, run: run, origin)
    }

    private func reply(
        _ answer: Answer,
        run: Identifier?,
        _ origin: CallReply.Origin
    ) -> CallReply {
        runner.reply(answer, run: run, origin, as: reader)
    }

    /// Starts to make a title for the thread of the call, if its function declares one.
    @Sendable
    private func makeTitle() {
        guard rules.keepsHistory, let name = rules.titles,
            let thread = try? submission.content.get().thread
        else { return }
        TitleMaker(
            runner: runner,
            function: name,
            identity: identity,
            address: address,
            labels: submission.labels
        )
        .begin(for: thread)
    }

    // MARK: - Leading a run

    private func lead(
        _ question: Question,
        _ sharedRun: SharedRun
    ) async throws(Problem) -> CallReply {
        let prepared = question.prepared
        let unavailable = prepared.unavailable ?? prepared.unavailableFor(identity.account)
        var permits = acquirePermits(unavailable, prepared)
        let repetition = count(prepared, &permits)
        // A call that already has its turn is accepted as sent, which saves a commit.
        let hasTurn = permits.unavailable == nil && sharedRun.turn.tryTake(caller)
        var terms = terms(prepared, of: sharedRun, mayWait: !hasTurn)
        terms.unavailable = permits.unavailable
        let expiresAt = services.uptime() + terms.life
        var isAccepted = false
        defer {
            if !isAccepted {
                sharedRun.turn.release()
                if let repetition { runner.uncount(repetition) }
            }
        }
        let call: AcceptedCall
        switch try await start(.success(terms)) {
        case .replayed(let answer, let run): return reply(answer, run: run, .replayed)
        case .accepted(let accepted): call = accepted
        }
        isAccepted = true
        let running = running(
            call,
            sharedRun,
            .price,
            prepared,
            paysForOthers: rules.payer == .first,
            expiresAt: expiresAt
        )
        let origin = CallReply.Origin.run(isKept: question.key != nil)
        let answer = begin(running, permits, origin)
        sharedRun.election.resolve(true)
        let run = RunExecution(
            services: services,
            name: function.name,
            rules: rules,
            prepared: prepared,
            settings: question.settings,
            key: question.key,
            leader: running,
            isSent: terms.isSent,
            acceptedAt: services.uptime(),
            // Reading files and encoding them for the upstream takes a long time.
            executor: prepared.attachments.isEmpty ? services.executor() : nil
        )
        // Intentionally unstructured: the charge must not be cancelled with the request.
        Task(executorPreference: run.executor) {
            await run.perform()
            permits.call?.release()
            permits.files?.release()
        }
        return try await answer()
    }

    private func count(_ prepared: PreparedCall, _ permits: inout Permits) -> RepeatGuard.Receipt? {
        guard permits.unavailable == nil else { return nil }
        do throws(Problem) {
            if let limit = abandonedCalls(prepared) {
                let now = services.uptime()
                try services.abandoned.check(function.name, identity.account, limit: limit, at: now)
            }
            return try runner.countRepeat(function.name, rules, identity.account, prepared)
        } catch {
            permits.unavailable = error
            return nil
        }
    }

    /// Returns the number of calls that the account may abandon; `nil` if it is not limited.
    private func abandonedCalls(_ prepared: PreparedCall) -> Int64? {
        prepared.isSent ? rules.price.abandonedCalls(of: authority.settings.quotas) : nil
    }

    private func countAbandoned(
        _ call: AcceptedCall,
        _ prepared: PreparedCall
    ) -> @Sendable () -> Void {
        guard !call.isUnlimited, let limit = abandonedCalls(prepared) else { return {} }
        return { [services, name = function.name] in
            services.abandoned.add(name, call.account, limit: limit, at: services.uptime())
        }
    }

    // MARK: - Following a run

    private func follow(
        _ sharedRun: SharedRun,
        _ prepared: PreparedCall
    ) async throws(Problem) -> CallReply {
        let isFirstPaying = rules.payer == .first
        let cached = rules.price.cached ?? 0
        let permits = acquirePermits(nil)
        var terms = terms(
            hold: isFirstPaying ? cached : prepared.hold,
            operation: Identifier(at: authority.clock.now())
        )
        terms.quota = isFirstPaying ? nil : rules.price.quota
        terms.life = life(prepared, mayWait: true, isStreamed: sharedRun.isStreamed)
        terms.unavailable = permits.unavailable
        if sharedRun.isStreamed { terms.run = sharedRun.id }
        let expiresAt = services.uptime() + terms.life
        var isAccepted = false
        defer { if !isAccepted { sharedRun.leave(isUnread: true) } }
        let call: AcceptedCall
        switch try await start(.success(terms)) {
        case .replayed(let answer, let run): return reply(answer, run: run, .replayed)
        case .accepted(let accepted): call = accepted
        }
        isAccepted = true
        let running = running(
            call,
            sharedRun,
            isFirstPaying ? .cached(cached) : .price,
            prepared,
            expiresAt: expiresAt
        )
        let answer = begin(running, permits, .shared)
        Task(executorPreference: services.executor()) {
            let end = await sharedRun.ending.wait()
            let records = await running.records(of: prepared, after: end)
            services.end(running, with: await services.settle(running, end, recording: records))
            permits.call?.release()
        }
        return try await answer()
    }

    // MARK: - Acceptance

    private func terms(hold: Int64, operation: Identifier) -> CallTerms {
        var terms = CallTerms(
            operation: operation,
            function: function.name,
            hold: hold,
            life: authority.settings.holdLife
        )
        if let request = try? submission.content.get(), let thread = request.thread {
            terms.question = ThreadQuestion(
                thread: thread,
                content: MessageContent(question: request.input),
                attachments: request.attachments ?? [],
                area: ChatThread.area(in: request.input)
            )
        }
        return terms
    }

    /// Returns the terms of a call that leads a run and is sent at once, unless it may have to
    /// wait.
    private func terms(
        _ prepared: PreparedCall,
        of sharedRun: SharedRun,
        mayWait: Bool
    ) -> CallTerms {
        var terms = terms(hold: prepared.hold, operation: sharedRun.id)
        terms.quota = rules.price.quota
        terms.life = life(prepared, mayWait: mayWait, isStreamed: isStreamed)
        terms.isSent = !mayWait && prepared.isSent
        if isStreamed { terms.run = sharedRun.id }
        // For an answer in one piece, it is unknown how much of it was produced.
        let lost = isStreamed ? prepared.chargeWhenCut(RunProgress()) : prepared.hold
        let charge = rules.price.charge(lost, for: .lost)
        terms.chargeWhenCut =
            prepared.isSent && (isStreamed || charge < prepared.hold) ? charge : nil
        return terms
    }

    /// Returns the lifetime of a call's hold, which is longer than the call can take.
    private func life(_ prepared: PreparedCall, mayWait: Bool, isStreamed: Bool) -> Duration {
        let own = isStreamed ? prepared.streamedLife ?? prepared.life : prepared.life
        return max(authority.settings.holdLife, mayWait ? own + services.queueTime : own)
    }

    /// Reserves the resources of a call, if it can run.
    ///
    /// A call without permits is refused only if its key is not known.
    private func acquirePermits(_ unavailable: Problem?, _ call: PreparedCall? = nil) -> Permits {
        var permits = Permits(unavailable: unavailable)
        permits.call = runner.acquirePermit(identity.account, address)
        if permits.call == nil { permits.unavailable = permits.unavailable ?? .noSlot }
        if let call {
            permits.files = runner.fileRoom(call, identity.account, address)
            if permits.files == nil { permits.unavailable = permits.unavailable ?? .noSlot }
        }
        guard reader.wantsParts else { return permits }
        do throws(Problem) {
            permits.reader = try runner.readerPermit(identity.account, address)
        } catch {
            permits.unavailable = permits.unavailable ?? error
        }
        return permits
    }

    /// Accepts the call, or finds the answer that it already has.
    private func start(_ terms: Result<CallTerms, Problem>) async throws(Problem) -> CallStart {
        guard submission.mayComeAgain, let wanted = try? terms.get() else {
            return try await stored(terms)
        }
        guard wanted.isStoredFromStart else { return try await reserved(wanted) }
        try services.calls.beginAcceptance(position, submission.fingerprint)
        defer { services.calls.endAcceptance(position) }
        return try await stored(terms)
    }

    /// Accepts a call and stores it, or finds the stored answer.
    private func stored(_ terms: Result<CallTerms, Problem>) async throws(Problem) -> CallStart {
        do throws(Problem) {
            return try await authority.start(identity.account, submission.with(terms))
        } catch {
            // The acceptance may have been stored, and only this ends it soon.
            if error.code == .internalFault, let terms = try? terms.get(),
                terms.isStoredFromStart, terms.isSent || !terms.holds
            {
                await withdraw(terms)
            }
            throw error
        }
    }

    /// Accepts a call that is not stored before it ends; its key is reserved until then.
    private func reserved(_ terms: CallTerms) async throws(Problem) -> CallStart {
        try services.calls.reserve(position, submission.fingerprint, for: terms.operation)
        var isAccepted = false
        defer { if !isAccepted { services.calls.release(position, of: terms.operation) } }
        let start = try await authority.start(identity.account, submission.with(.success(terms)))
        if case .accepted = start { isAccepted = true }
        return start
    }

    /// Withdraws a call that is not sent, but whose acceptance may have been stored.
    private func withdraw(_ terms: CallTerms) async {
        var call = AcceptedCall(
            operation: terms.operation,
            account: identity.account,
            key: submission.key
        )
        if terms.holds { call.hold = terms.operation }
        call.isInThread = terms.question != nil
        // The day does not matter, because the hold contains it.
        call.quota = terms.quota.map {
            QuotaHold(name: $0.name, day: CalendarDay(daysSince1970: 0), units: $0.units)
        }
        let withdrawal = CallSettlement(withdrawing: call, submission.fingerprint, .noTurn)
        _ = await services.settle(withdrawal)
    }

    /// Returns the accepted call, which is queued for the turn of its run.
    private func running(
        _ call: AcceptedCall,
        _ sharedRun: SharedRun,
        _ terms: RunningCall.Terms,
        _ prepared: PreparedCall,
        paysForOthers: Bool = false,
        expiresAt: Duration
    ) -> RunningCall {
        RunningCall(
            call,
            sharedRun,
            terms,
            ticket: sharedRun.turn.join(caller),
            paysForOthers: paysForOthers,
            isPlain: !reader.wantsParts,
            expiresAt: expiresAt,
            fingerprint: submission.fingerprint,
            price: rules.price,
            onAbandoned: countAbandoned(call, prepared),
            onAnswered: makeTitle,
            cost: prepared.chargeWhenCut
        )
    }

    /// Registers an accepted call under its key and starts to read it.
    ///
    /// - Returns: A closure that waits for the answer.
    private func begin(
        _ call: RunningCall,
        _ permits: Permits,
        _ origin: CallReply.Origin
    ) -> () async throws(Problem) -> CallReply {
        services.calls.add(call)
        services.reports.answered(function.name, origin)
        let ifNotKept = origin == .run(isKept: true) ? .missed : origin
        if let permit = permits.reader {
            let events = runner.follow(call, after: nil, permit)
            return { .events(events, ifNotKept) }
        }
        return { () async throws(Problem) in
            let answer = try await call.ending.wait().get()
            return .answer(answer, call.sharedRun.isKept ? origin : ifNotKept)
        }
    }
}

extension CallTerms {
    /// Whether a hold is placed for the call.
    var holds: Bool { hold > 0 || quota != nil }

    /// Whether the call is stored when it is accepted, because its hold must not be forgotten, nor
    /// the fact that a reader may have received parts, nor its question in a thread.
    var isStoredFromStart: Bool { holds || run != nil || question != nil }
}

extension Problem {
    fileprivate static var noSlot: Problem {
        Problem(
            .overloaded,
            """
            Too many calls are running. Send the call again with the same key when some of them \
            have ended.
            """,
            retryAfter: 1
        )
    }

    fileprivate static var nothingToResume: Problem {
        Problem(
            .notFound,
            "There is no call with this key. Call with a new key and without 'Last-Event-ID'."
        )
    }
}
