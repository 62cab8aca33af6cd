import SanguineModel

/// One request for a call, on its way to an answer.
///
/// A call of a function whose answers are kept looks for one, or for a run that makes one, and leads
/// a run only if there is neither. All others lead a run of their own.
struct CallAttempt: Sendable {
    let runner: CallRunner
    let function: any MeteredFunction
    let identity: Identity
    let address: String?
    let submission: Submission<FunctionRequest<JSONValue>>
    let reader: CallReader

    private var services: RunServices { runner.services }
    private var authority: Authority { runner.services.authority }
    private var rules: FunctionRules { function.rules }
    private var caller: CallQueue.Caller {
        CallQueue.Caller(account: identity.account, address: address)
    }
    private var isStreamed: Bool { reader.wantsParts && rules.streams }

    func perform() async throws(Problem) -> CallReply {
        let prepared: PreparedCall
        do throws(Problem) {
            prepared = try await runner.prepare(
                try submission.content.get(),
                of: identity.account,
                for: function
            )
        } catch {
            // A repetition is recognized before its content is judged.
            return try await accept(.failure(error)) { _ throws(Problem) in throw error }
        }
        guard let key = try await key(prepared) else {
            return try await lead(prepared, nil, flight)
        }
        while true {
            switch services.flights.find(key, at: authority.clock.now(), else: { flight }) {
            case .known(let row):
                return try await answer(with: row)
            case .follow(let flight):
                if await flight.election.wait() {
                    return try await follow(flight, prepared)
                }
            case .lead(let flight):
                do throws(Problem) {
                    if let row = try await authority.result(key) {
                        services.tier.add(row)
                        abandon(key, flight)
                        continue
                    }
                    let reply = try await lead(prepared, key, flight)
                    // The call was known under its key: others must not wait for it.
                    if flight.election.value == nil { abandon(key, flight) }
                    return reply
                } catch {
                    abandon(key, flight)
                    throw error
                }
            }
        }
    }

    private func abandon(_ key: ResultKey, _ flight: Flight) {
        services.flights.remove(key, flight)
        flight.election.resolve(false)
    }

    private var flight: Flight {
        let id = Identifier(at: authority.clock.now())
        return Flight(id: id, isStreamed: isStreamed) { [runner, rules, identity] flight in
            runner.unread(flight, rules, identity.account)
        }
    }

    /// Where the answer is kept; `nil` if none is.
    private func key(_ prepared: PreparedCall) async throws(Problem) -> ResultKey? {
        guard rules.cache.lifetime != .none else { return nil }
        return ResultKey(
            function.name,
            rules,
            input: prepared.input,
            attachments: prepared.attachments,
            identity: identity,
            profile: try await authority.profile(identity.account),
            sessionLife: authority.settings.refreshTokenLife,
            now: authority.clock.now()
        )
    }

    // MARK: - What is kept

    private func answer(with row: ResultRow) async throws(Problem) -> CallReply {
        let charge = rules.price.cached ?? 0
        let terms = terms(hold: charge, operation: Identifier(at: authority.clock.now()))
        let answer = try await authority.answer(
            identity.account,
            submission.with(.success(terms))
        ) { balance, quota in
            AnswerEncoder.result(row.output, charge, true, terms.operation, balance, quota)
        }
        guard !answer.replayed else { return reply(answer, run: nil, .replayed) }
        let now = authority.clock.now()
        let origin = CallReply.Origin.cache(
            age: max(.zero, now - row.madeAt),
            rest: row.expiresAt == .never ? nil : max(.zero, row.expiresAt - now)
        )
        services.reports.answered(function.name, origin)
        return reply(answer, run: nil, origin)
    }

    private func reply(
        _ answer: Answer,
        run: Identifier?,
        _ origin: CallReply.Origin
    ) -> CallReply {
        guard reader.wantsParts else { return .answer(answer, origin) }
        let events = CallEvents(answer.stored, run: run, after: reader.after, authority)
        return .events(events, origin)
    }

    // MARK: - A run of its own

    private func lead(
        _ prepared: PreparedCall,
        _ key: ResultKey?,
        _ flight: Flight
    ) async throws(Problem) -> CallReply {
        var unavailable = prepared.unavailable
        // One who has no place is told so only if the call is not known under its key already.
        let place = runner.place(identity.account, address)
        let room = runner.fileRoom(prepared, identity.account, address)
        if place == nil || room == nil { unavailable = unavailable ?? .noSlot }
        if unavailable == nil {
            do throws(Problem) {
                try runner.countRepeat(function, identity.account, prepared)
            } catch {
                unavailable = error
            }
        }
        // Whoever can leave at once is accepted as sent: one commit less to wait for.
        let slot =
            unavailable == nil
            ? services.queue.tryEnter(caller, function.name, rules.limits) : nil
        var terms = terms(hold: prepared.hold, operation: flight.id)
        terms.quota = rules.price.quota
        terms.life = max(authority.settings.holdLife, prepared.life)
        terms.isSent = slot != nil && prepared.isSent
        terms.unavailable = unavailable
        if isStreamed {
            terms.run = flight.id
            terms.chargeWhenCut = prepared.chargeWhenCut(CallProgress())
        }
        return try await accept(.success(terms)) { call throws(Problem) in
            let running = RunningCall(
                call,
                flight,
                .price,
                isPlain: !reader.wantsParts,
                cost: prepared.chargeWhenCut
            )
            services.calls.add(running)
            let reply = Result { () throws(Problem) in try events(of: running) }
            flight.election.resolve(true)
            let run = CallRun(
                services: services,
                name: function.name,
                rules: rules,
                prepared: prepared,
                key: key,
                leader: running,
                caller: caller,
                isSent: terms.isSent
            )
            // Unstructured on purpose: the charge must not be cancelled with the request.
            Task {
                await run.perform(slot)
                place?.leave()
                room?.leave()
            }
            let origin = CallReply.Origin.run(isKept: key != nil)
            services.reports.answered(function.name, origin)
            return try await answer(running, reply, origin)
        }
    }

    // MARK: - Another's run

    private func follow(
        _ flight: Flight,
        _ prepared: PreparedCall
    ) async throws(Problem) -> CallReply {
        let isFirstPaying = rules.payer == .first
        let cached = rules.price.cached ?? 0
        let place = runner.place(identity.account, address)
        var terms = terms(
            hold: isFirstPaying ? cached : prepared.hold,
            operation: Identifier(at: authority.clock.now())
        )
        terms.quota = isFirstPaying ? nil : rules.price.quota
        terms.life = max(authority.settings.holdLife, prepared.life)
        terms.unavailable = place == nil ? .noSlot : nil
        if isStreamed, flight.isStreamed {
            terms.run = flight.id
            terms.chargeWhenCut = 0
        }
        return try await accept(.success(terms)) { call throws(Problem) in
            let running = RunningCall(
                call,
                flight,
                isFirstPaying ? .cached(cached) : .price,
                isPlain: !reader.wantsParts,
                cost: prepared.chargeWhenCut
            )
            services.calls.add(running)
            let reply = Result { () throws(Problem) in try events(of: running) }
            Task {
                let end = await flight.ending.wait()
                running.ending.resolve(await services.settle(running, end))
                flight.leave(isPlain: running.isPlain)
                services.calls.remove(running)
                place?.leave()
            }
            services.reports.answered(function.name, .shared)
            return try await answer(running, reply, .shared)
        }
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

    /// Accepts the call, or gives the answer that it had before.
    private func accept(
        _ terms: Result<CallTerms, Problem>,
        _ body: (AcceptedCall) async throws(Problem) -> CallReply
    ) async throws(Problem) -> CallReply {
        let start: CallStart
        do throws(Problem) {
            start = try await authority.start(identity.account, submission.with(terms))
        } catch {
            if error.code == .internalFault, let terms = try? terms.get(), terms.isSent {
                await withdraw(terms)
            }
            throw error
        }
        switch start {
        case .replayed(let answer, let run): return reply(answer, run: run, .replayed)
        case .accepted(let call): return try await body(call)
        }
    }

    /// Takes back a call whose acceptance may have been stored, as sent, and which does not leave.
    private func withdraw(_ terms: CallTerms) async {
        var call = AcceptedCall(
            operation: terms.operation,
            account: identity.account,
            key: submission.key
        )
        if terms.hold > 0 || terms.quota != nil { call.hold = terms.operation }
        // Whatever its day is: the hold knows.
        call.quota = terms.quota.map {
            QuotaHold(name: $0.name, day: CalendarDay(daysSince1970: 0), units: $0.units)
        }
        _ = await services.persist { () async throws(Problem) in
            try await authority.withdraw(call)
        }
    }

    private func events(of call: RunningCall) throws(Problem) -> CallEvents? {
        guard reader.wantsParts else { return nil }
        return try runner.follow(call, after: reader.after, address)
    }

    private func answer(
        _ call: RunningCall,
        _ events: Result<CallEvents?, Problem>,
        _ origin: CallReply.Origin
    ) async throws(Problem) -> CallReply {
        if let events = try events.get() { return .events(events, origin) }
        return .answer(try await call.ending.wait().get(), origin)
    }
}

extension Submission {
    /// The same submission with another content.
    fileprivate func with<Other: Sendable>(_ content: Result<Other, Problem>) -> Submission<Other> {
        Submission<Other>(key: key, fingerprint: fingerprint, content: content)
    }
}

extension Problem {
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
}
