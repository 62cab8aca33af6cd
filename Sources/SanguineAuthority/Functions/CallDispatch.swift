import SanguineModel

/// One request for a call, on its way to an answer.
///
/// A call of a function whose answers are kept looks for one, or for a run that makes one, and
/// leads a run only if there is neither. All others lead a run of their own.
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

    /// What a call takes for its time; what is not there is why it cannot run now.
    private struct Permits {
        var call: SharedPool.Permit?
        var reader: SharedPool.Permit?
        var files: SharedPool.Permit?
        var unavailable: Problem?
    }

    /// What is known of a call before it looks for its answer.
    private struct Question {
        var prepared: PreparedCall
        /// Of the account's settings, what the answer depends on.
        var settings: [String: JSONValue] = [:]
        /// Where the answer is kept; `nil` if none is.
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
            // A repetition is recognized before its content is judged.
            guard case .replayed(let answer, let run) = try await start(.failure(error)) else {
                throw error
            }
            return reply(answer, run: run, .replayed)
        }
        guard let key = question.key else { return try await lead(question, sharedRun) }
        for _ in 0..<CallLimits.refusedLeaders {
            switch services.sharedRuns.find(key, at: authority.clock.now(), else: { sharedRun }) {
            case .known(let row):
                return try await answer(with: row)
            case .follow(let sharedRun):
                if await sharedRun.election.wait() {
                    return try await follow(sharedRun, question.prepared)
                }
                sharedRun.leave(isUnread: true)
            case .lead(let sharedRun):
                return try await find(question, key, sharedRun)
            }
        }
        // Calls that are refused, one after the other, do not keep this one waiting: its run is
        // shared with no other call.
        return try await find(question, key, sharedRun)
    }

    /// Looks for an answer that is kept in the storage, or leads a run that others follow.
    private func find(
        _ question: Question,
        _ key: ResultKey,
        _ sharedRun: SharedRun
    ) async throws(Problem) -> CallReply {
        // If it was not accepted, or was known under its key already, others must not wait for it.
        defer {
            if sharedRun.election.value == nil {
                services.sharedRuns.remove(key, sharedRun)
                sharedRun.election.resolve(false)
            }
        }
        if let row = try await authority.result(key) {
            services.tier.add(row)
            return try await answer(with: row)
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

    /// Reads what is asked.
    ///
    /// What the account's settings say is read once, so that the key of the answer and what the
    /// function is given agree.
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
            identity: identity,
            profile: profile,
            sessionLife: authority.settings.refreshTokenLife,
            now: authority.clock.now()
        )
        return Question(prepared: prepared, settings: settings, key: key)
    }

    // MARK: - What is kept

    private func answer(with row: ResultRow) async throws(Problem) -> CallReply {
        let charge = rules.price.cached ?? 0
        let terms = terms(hold: charge, operation: Identifier(at: authority.clock.now()))
        let (answer, run) = try await authority.answer(
            identity.account,
            submission.with(.success(terms))
        ) { balance, quota in
            ResponseEncoder.result(row.output, charge, true, terms.operation, balance, quota)
        }
        // A replayed answer is read in the parts of its run, which its readers may have.
        guard !answer.replayed else { return reply(answer, run: run, .replayed) }
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

    // MARK: - A run of its own

    private func lead(
        _ question: Question,
        _ sharedRun: SharedRun
    ) async throws(Problem) -> CallReply {
        let prepared = question.prepared
        let unavailable = prepared.unavailable ?? prepared.unavailableFor(identity.account)
        var places = acquirePermits(unavailable, prepared)
        let repetition = count(prepared, &places)
        // A call that has its turn already is accepted as sent, which saves a commit.
        let hasTurn = places.unavailable == nil && sharedRun.turn.tryTake(caller)
        var terms = terms(prepared, of: sharedRun, mayWait: !hasTurn)
        terms.unavailable = places.unavailable
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
        let answer = begin(running, places, origin)
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
            // Files are read and written out for the upstream, which takes long.
            executor: prepared.attachments.isEmpty ? services.executor() : nil
        )
        // Unstructured on purpose: the charge must not be cancelled with the request.
        Task(executorPreference: run.executor) {
            await run.perform()
            places.call?.release()
            places.files?.release()
        }
        return try await answer()
    }

    private func count(_ prepared: PreparedCall, _ places: inout Permits) -> RepeatGuard.Receipt? {
        guard places.unavailable == nil else { return nil }
        do throws(Problem) {
            if let limit = abandonedCalls(prepared) {
                let now = services.uptime()
                try services.abandoned.check(function.name, identity.account, limit: limit, at: now)
            }
            return try runner.countRepeat(function.name, rules, identity.account, prepared)
        } catch {
            places.unavailable = error
            return nil
        }
    }

    /// How many calls the account may abandon; `nil` for any number.
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

    // MARK: - Another's run

    private func follow(
        _ sharedRun: SharedRun,
        _ prepared: PreparedCall
    ) async throws(Problem) -> CallReply {
        let isFirstPaying = rules.payer == .first
        let cached = rules.price.cached ?? 0
        let places = acquirePermits(nil)
        var terms = terms(
            hold: isFirstPaying ? cached : prepared.hold,
            operation: Identifier(at: authority.clock.now())
        )
        terms.quota = isFirstPaying ? nil : rules.price.quota
        terms.life = life(prepared, mayWait: true, isStreamed: sharedRun.isStreamed)
        terms.unavailable = places.unavailable
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
        let answer = begin(running, places, .shared)
        Task(executorPreference: services.executor()) {
            let end = await sharedRun.ending.wait()
            services.end(running, with: await services.settle(running, end))
            places.call?.release()
        }
        return try await answer()
    }

    // MARK: - Acceptance

    private func terms(hold: Int64, operation: Identifier) -> CallTerms {
        CallTerms(
            operation: operation,
            function: function.name,
            hold: hold,
            life: authority.settings.holdLife
        )
    }

    /// The terms of a call that leads a run, and leaves at once unless it may have to wait.
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
        // How much of an answer in one piece was made is not known.
        let lost = isStreamed ? prepared.chargeWhenCut(RunProgress()) : prepared.hold
        let charge = rules.price.charge(lost, for: .lost)
        terms.chargeWhenCut =
            prepared.isSent && (isStreamed || charge < prepared.hold) ? charge : nil
        return terms
    }

    /// How long the hold of a call lasts: longer than the call takes at most.
    private func life(_ prepared: PreparedCall, mayWait: Bool, isStreamed: Bool) -> Duration {
        let own = isStreamed ? prepared.streamedLife ?? prepared.life : prepared.life
        return max(authority.settings.holdLife, mayWait ? own + services.queueTime : own)
    }

    /// Reserves the resources of a call, if it can run.
    ///
    /// A call without a reservation is refused only if its key is not known.
    private func acquirePermits(_ unavailable: Problem?, _ call: PreparedCall? = nil) -> Permits {
        var places = Permits(unavailable: unavailable)
        places.call = runner.acquirePermit(identity.account, address)
        if places.call == nil { places.unavailable = places.unavailable ?? .noSlot }
        if let call {
            places.files = runner.fileRoom(call, identity.account, address)
            if places.files == nil { places.unavailable = places.unavailable ?? .noSlot }
        }
        guard reader.wantsParts else { return places }
        do throws(Problem) {
            places.reader = try runner.readerPlace(identity.account, address)
        } catch {
            places.unavailable = places.unavailable ?? error
        }
        return places
    }

    /// Accepts the call, or finds the answer that it had before.
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
            // The acceptance may have been stored: nothing but this ends it soon.
            if error.code == .internalFault, let terms = try? terms.get(),
                terms.isStoredFromStart, terms.isSent || !terms.holds
            {
                await withdraw(terms)
            }
            throw error
        }
    }

    /// Accepts a call of which nothing is stored before it ends: its key is reserved until then.
    private func reserved(_ terms: CallTerms) async throws(Problem) -> CallStart {
        try services.calls.reserve(position, submission.fingerprint, for: terms.operation)
        var isAccepted = false
        defer { if !isAccepted { services.calls.release(position, of: terms.operation) } }
        let start = try await authority.start(identity.account, submission.with(.success(terms)))
        if case .accepted = start { isAccepted = true }
        return start
    }

    /// Takes back a call whose acceptance may have been stored, and which does not leave.
    private func withdraw(_ terms: CallTerms) async {
        var call = AcceptedCall(
            operation: terms.operation,
            account: identity.account,
            key: submission.key
        )
        if terms.holds { call.hold = terms.operation }
        // Whatever its day is: the hold knows.
        call.quota = terms.quota.map {
            QuotaHold(name: $0.name, day: CalendarDay(daysSince1970: 0), units: $0.units)
        }
        let withdrawal = CallSettlement(withdrawing: call, submission.fingerprint, .noTurn)
        _ = await services.settle(withdrawal)
    }

    /// The accepted call, which stands in line for the turn of its run.
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
            cost: prepared.chargeWhenCut
        )
    }

    /// Registers an accepted call under its key and starts to read it.
    ///
    /// - Returns: What waits for the answer.
    private func begin(
        _ call: RunningCall,
        _ places: Permits,
        _ origin: CallReply.Origin
    ) -> () async throws(Problem) -> CallReply {
        services.calls.add(call)
        services.reports.answered(function.name, origin)
        let ifNotKept = origin == .run(isKept: true) ? .missed : origin
        if let place = places.reader {
            let events = runner.follow(call, after: nil, place)
            return { .events(events, ifNotKept) }
        }
        return { () async throws(Problem) in
            let answer = try await call.ending.wait().get()
            return .answer(answer, call.sharedRun.isKept ? origin : ifNotKept)
        }
    }
}

extension CallTerms {
    /// Whether something is held for the call.
    var holds: Bool { hold > 0 || quota != nil }

    /// Whether the call is stored from its acceptance on: what is held must not be forgotten, nor
    /// that a reader may have seen parts.
    var isStoredFromStart: Bool { holds || run != nil }
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
