import Foundation
import SanguineModel
import Synchronization

// MARK: - Flights

extension QueryCache {
    /// Runs one flight to its end.
    ///
    /// Called by the entry's task alone.
    func fly(
        _ query: ErasedQuery,
        flight: UInt64,
        _ partition: Partition,
        priority: RequestPriority
    ) async {
        let departure = clock.now()
        let source = partition.sources[query.key]
        let counters = query.countsFlights ? entries.metrics.named(query.name) : nil
        var plan = query.plan
        plan.flight = flight
        let outcome = await counted(plan, by: counters) { plan in
            guard let source else {
                return await partition.attempts.fetch(plan, priority: priority, query.fetch)
            }
            if let refusal = partition.attempts.refusal { return .failure(refusal) }
            // It has attempts, and a time for them, of its own.
            return await source.fetched(by: partition.attempts.request(plan, priority))
        }
        switch outcome {
        case .success(let box):
            let arrival = Entries.Arrival(of: query, since: departure, at: clock.now())
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
        _ arrival: Entries.Arrival
    ) {
        var answer = box
        entries.transact(query, answer: .success(answer)) { ground -> Entries.Change?? in
            // Without one the held value stays: what is new in the other cannot be told.
            let landing = entries.fetchedBase(box, of: query, askedAt: flight, over: ground)
            let change = landing.map { ground.taking($0) }
            answer = change?.shown ?? ground.value?.shown ?? box
            return .some(change)
        } commit: { change, entry, guarded in
            let actions = entry.state.land(
                flight,
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                isAmbiguous: change == nil,
                nextFlight: guarded.nextNumber()
            )
            guard let actions else { return nil }
            entry.flight = nil
            if actions.isOvertaken {
                answer = entry.box ?? answer
            } else if let change {
                if query.policy.adaptive != nil {
                    entry.adaptive.landed(changed: !change.looksSame, at: arrival.asOf)
                }
                entries.take(change, arrival, entry, in: &guarded)
            }
            return actions
        }
    }

    private func land(from source: any EntrySource, _ flight: UInt64, _ arrival: Entries.Arrival) {
        var answer: Entry.Answer = .failure(.balanceUnsettled)
        entries.show(source, answer: answer) { entry, guarded in
            let actions = entry.state.land(
                flight,
                at: arrival.asOf,
                nextFlight: guarded.nextNumber()
            )
            guard let actions else { return nil }
            entry.flight = nil
            entry.look(at: arrival.asOf)
            if let box = entry.box { answer = .success(box) }
            return actions
        }
    }

    private func fail(
        _ query: ErasedQuery,
        flight: UInt64,
        with error: SanguineError
    ) {
        var answer = Entry.Answer.failure(error)
        entries.change(query, answer: answer) { entry, guarded in
            let actions = entry.state.fail(
                flight,
                error: error,
                nextFlight: guarded.nextNumber()
            )
            guard let actions else { return nil }
            entry.flight = nil
            if actions.isOvertaken, let newer = entry.box { answer = .success(newer) }
            return actions
        }
    }

    /// Answers the caller at once, or when the flight under way or the next one ends.
    func join(
        _ query: ErasedQuery,
        as waiter: UInt64,
        _ continuation: Entry.Waiter,
        refreshing: Bool,
        _ priority: FetchPriority,
        at now: Timestamp? = nil,
        isLast: Bool = false
    ) {
        var answer: Entry.Answer?
        var raised: RequestPriority?
        var (isWaiting, mustAskClock) = (false, false)
        entries.change(query, creating: true) { entry, guarded in
            guard entry.serves(query) else {
                answer = .failure(.conflictingQuery(name: query.name))
                return nil
            }
            // Callers share it: no reference is counted in vain.
            if entry.query !== query { entry.query = query }
            guarded.table.use(entry)
            if !refreshing, let box = entry.box {
                // What has landed since the clock was asked is not from the future.
                guard let now, entry.state.held.map({ $0.asOf <= now }) ?? true || isLast else {
                    mustAskClock = true
                    return nil
                }
                if entry.isFresh(query.policy, at: now, in: guarded.zone) {
                    entry.metrics.hit()
                    answer = .success(box)
                    return nil
                }
            }
            if entry.box == nil { entry.metrics.miss() } else { entry.metrics.staleHit() }
            if priority != .prefetch { guarded.user.allowSignIn() }
            entry.waiters[waiter] = continuation
            isWaiting = true
            raised = entry.want(priority)
            let actions = entry.state.join(waiter: waiter, nextFlight: guarded.nextNumber())
            // Who joins a flight changes nothing that anybody is to be told.
            return actions.start == nil ? nil : actions
        }
        // The app's clock, so under no lock; and not asked where there is no value to be fresh.
        if mustAskClock {
            return join(
                query,
                as: waiter,
                continuation,
                refreshing: false,
                priority,
                at: clock.now(),
                isLast: now != nil
            )
        }
        if !isWaiting { continuation.resume(returning: answer ?? .failure(.closed)) }
        raised?.raise(to: priority)
    }

    /// A caller gives up.
    func leave(_ query: ErasedQuery, _ waiter: UInt64) {
        entries.change(query) { entry, _ in entry.state.leave(waiter: waiter) }
    }
}
