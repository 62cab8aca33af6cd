import Foundation
import SanguineModel
import Synchronization

// MARK: - Fetches

extension QueryCache {
    /// Runs one fetch to its end.
    ///
    /// Called only by the entry's task.
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
            // The source limits its own attempts and their time.
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

    /// Runs a fetch and records it in the metrics.
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
            // Without a new base the held value stays: the newer parts of the other are unknown.
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

    /// Answers the caller at once, or when the current fetch or the next one ends.
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
            // Callers share the query: assigning the same one would only cost reference counting.
            if entry.query !== query { entry.query = query }
            guarded.table.use(entry)
            if !refreshing, let box = entry.box {
                // A value that arrived after the clock was read is not from the future.
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
            // Joining a running fetch changes nothing that observers see.
            return actions.start == nil ? nil : actions
        }
        // The app's clock is read under no lock, and only where there is a value to judge.
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

    /// Removes a caller that gave up.
    func leave(_ query: ErasedQuery, _ waiter: UInt64) {
        entries.change(query) { entry, _ in entry.state.leave(waiter: waiter) }
    }
}
