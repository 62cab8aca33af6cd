import Foundation
import SanguineModel
import Synchronization

// MARK: - Flights

extension QueryCache {
    /// Runs one flight to its end.
    ///
    /// Called by the record's task alone.
    func fly(
        _ query: ErasedQuery,
        flight: UInt64,
        _ partition: Partition,
        priority: RequestPriority
    ) async {
        let departure = clock.now()
        let source = partition.sources[query.key]
        let counters = query.countsFlights ? metrics.named(query.name) : nil
        let outcome = await counted(query.plan, by: counters) { plan in
            guard let source else {
                return await partition.attempts.fetch(plan, priority: priority, query.fetch)
            }
            // It has attempts, and a time for them, of its own.
            return await source.fetched(by: partition.attempts.request(plan, priority))
        }
        switch outcome {
        case .success(let box):
            let arrival = Arrival(of: query, since: departure, at: clock.now())
            if let source {
                land(from: source, flight, arrival)
            } else {
                land(box, of: query, flight, arrival)
            }
        case .failure(let error):
            fail(query, flight: flight, with: error)
        }
    }

    /// Fetches, and counts it as a flight.
    func counted<Value: Sendable>(
        _ plan: FetchPlan,
        by counters: NamedMetrics?,
        _ fetch: (FetchPlan) async -> Result<Value, SanguineError>
    ) async -> Result<Value, SanguineError> {
        guard let counters else { return await fetch(plan) }
        let ticket = counters.flightBegan()
        let attempted = AttemptCount()
        var plan = plan
        (plan.metrics, plan.attempts) = (counters, attempted)
        let outcome = await fetch(plan)
        counters.flightEnded(
            ticket,
            outcome: FlightOutcome(outcome),
            attempts: attempted.value
        )
        return outcome
    }

    private func land(
        _ box: ValueBox,
        of query: ErasedQuery,
        _ flight: UInt64,
        _ arrival: Arrival
    ) {
        var answer = box
        transact(query, answer: .success(answer)) { ground -> Change?? in
            // Without one the held value stays: what is new in the other cannot be told.
            let landing = fetchedBase(box, of: query, askedAt: flight, over: ground)
            let change = landing.map { ground.taking($0) }
            answer = change?.shown ?? ground.value?.shown ?? box
            return .some(change)
        } commit: { change, record, guarded in
            let effect = record.state.land(
                flight,
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                isAmbiguous: change == nil,
                nextFlight: guarded.nextNumber()
            )
            guard let effect else { return nil }
            record.flight = nil
            if effect.isOvertaken {
                answer = record.box ?? answer
            } else if let change {
                if query.policy.adaptive != nil {
                    record.adaptive.landed(changed: !change.isEqual, at: arrival.asOf)
                }
                take(change, arrival, record, in: &guarded)
            }
            return effect
        }
    }

    /// Shows what an entry's source has now.
    func sourceChanged(_ query: ErasedQuery) {
        let source = guarded.withLock { guarded in
            guarded.partition(query.policy.audience).sources[query.key]
        }
        guard let source else { return }
        show(source)
    }

    private func land(from source: any EntrySource, _ flight: UInt64, _ arrival: Arrival) {
        var answer: QueryRecord.Answer = .failure(.balanceUnsettled)
        show(source, answer: answer) { record, guarded in
            let effect = record.state.land(
                flight,
                at: arrival.asOf,
                nextFlight: guarded.nextNumber()
            )
            guard let effect else { return nil }
            record.flight = nil
            if let box = record.box { answer = .success(box) }
            return effect
        }
    }

    /// Shows what a source has, and plays an event in the same step.
    ///
    /// Of several who show it the one whose value is newest counts.
    private func show(
        _ source: any EntrySource,
        answer: @autoclosure () -> QueryRecord.Answer = .failure(.cancelled),
        _ event: (QueryRecord, inout Guarded) -> EntryState.Effect? = { _, _ in .nothing }
    ) {
        let query = source.query
        let present = source.present()
        transact(query, creating: present.box != nil, answer: answer()) { ground in
            present.box.map { (box: $0, isEqual: ground.value?.shown.isEqual(to: $0) ?? false) }
                ?? (box: nil as ValueBox?, isEqual: true)
        } commit: { plan, record, guarded in
            guard record.partition.sources[query.key] as AnyObject === source as AnyObject else {
                return nil
            }
            // What an earlier process has left open: whoever asks gets a newer value.
            let isOutdated = !record.isLookedUp && present.isOutdated
            if isOutdated { record.state.note(generation: guarded.marks.invalidate()) }
            record.isLookedUp = true
            if present.revision >= record.sourceRevision, let box = plan.box {
                record.sourceRevision = present.revision
                record.set(box, isEqual: plan.isEqual, version: guarded.nextNumber())
                if let asOf = present.asOf {
                    record.state.supply(at: asOf, isStale: isOutdated)
                }
            }
            return event(record, &guarded)
        }
    }

    private func fail(
        _ query: ErasedQuery,
        flight: UInt64,
        with error: SanguineError
    ) {
        var answer = QueryRecord.Answer.failure(error)
        change(query, answer: answer) { record, guarded in
            let effect = record.state.fail(
                flight,
                error: error,
                nextFlight: guarded.nextNumber()
            )
            guard let effect else { return nil }
            record.flight = nil
            if effect.isOvertaken, let newer = record.box { answer = .success(newer) }
            return effect
        }
    }

    /// Answers the caller at once, or when the flight under way or the next one ends.
    func join(
        _ query: ErasedQuery,
        as waiter: UInt64,
        _ continuation: QueryRecord.Waiter,
        refreshing: Bool,
        _ priority: FetchPriority,
        at now: Timestamp? = nil
    ) {
        var answer: QueryRecord.Answer?
        var raised: RequestPriority?
        var (isWaiting, mustAskClock) = (false, false)
        change(query, creating: true) { record, guarded in
            guard record.serves(query) else {
                answer = .failure(.conflictingQuery(name: query.name))
                return nil
            }
            // Callers share it: no reference is counted in vain.
            if record.query !== query { record.query = query }
            guarded.entries.use(record)
            if !refreshing, let box = record.box {
                guard let now else {
                    mustAskClock = true
                    return nil
                }
                if record.isFresh(query.policy, at: now, in: guarded.zone) {
                    record.metrics.hit()
                    answer = .success(box)
                    return nil
                }
            }
            if record.box == nil { record.metrics.miss() } else { record.metrics.staleHit() }
            record.waiters[waiter] = continuation
            isWaiting = true
            raised = record.want(priority)
            let effect = record.state.join(waiter: waiter, nextFlight: guarded.nextNumber())
            // Who joins a flight changes nothing that anybody is to be told.
            return effect.start == nil ? nil : effect
        }
        // The app's clock, so under no lock; and not asked where there is no value to be fresh.
        if mustAskClock {
            return join(
                query,
                as: waiter,
                continuation,
                refreshing: false,
                priority,
                at: clock.now()
            )
        }
        if !isWaiting { continuation.resume(returning: answer ?? .failure(.closed)) }
        raised?.raise(to: priority)
    }

    /// A caller gives up.
    func leave(_ query: ErasedQuery, _ waiter: UInt64) {
        change(query) { record, _ in record.state.leave(waiter: waiter) }
    }
}
