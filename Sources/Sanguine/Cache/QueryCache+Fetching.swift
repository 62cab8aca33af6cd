import Foundation
import SanguineModel
import Synchronization

// MARK: - Fetches

extension QueryCache {
    /// Runs one fetch to its end.
    ///
    /// Called only by the entry's task.
    func runFetch(
        _ query: ErasedQuery,
        fetchNumber: UInt64,
        _ cacheScope: CacheScope,
        priority: RequestPriority
    ) async {
        let departure = clock.now()
        let source = cacheScope.sources[query.key]
        let counters = query.countsFetches ? entries.metrics.named(query.name) : nil
        var plan = query.plan
        (plan.fetchNumber, plan.key) = (fetchNumber, query.key)
        let outcome = await counted(plan, by: counters) { plan in
            guard let source else {
                return await cacheScope.attempts.fetch(plan, priority: priority, query.fetch)
            }
            if let refusal = cacheScope.attempts.refusal { return .failure(refusal) }
            // The source limits its own attempts and their time.
            return await source.fetched(by: cacheScope.attempts.request(plan, priority))
        }
        switch outcome {
        case .success(let box):
            let arrival = Entries.FetchTiming(of: query, since: departure, at: clock.now())
            if let source {
                completeFetch(from: source, fetchNumber, arrival)
            } else {
                completeFetch(box, of: query, fetchNumber, arrival)
            }
        case .failure(let error):
            fail(query, fetchNumber: fetchNumber, with: error)
        }
    }

    /// Runs a fetch and records it in the metrics.
    func counted<Value: Sendable>(
        _ plan: FetchPlan,
        by counters: NamedMetrics?,
        _ fetch: (FetchPlan) async -> Result<Value, SanguineError>
    ) async -> Result<Value, SanguineError> {
        guard let counters else { return await fetch(plan) }
        let ticket = counters.fetchBegan()
        let attempted = AttemptCount()
        var plan = plan
        (plan.metrics, plan.attempts) = (counters, attempted)
        let outcome = await fetch(plan)
        counters.fetchEnded(
            ticket,
            outcome: FetchOutcome(outcome),
            attempts: attempted.value
        )
        return outcome
    }

    private func completeFetch(
        _ box: ValueBox,
        of query: ErasedQuery,
        _ fetchNumber: UInt64,
        _ arrival: Entries.FetchTiming
    ) {
        var answer = box
        entries.transact(query, answer: .success(answer)) { snapshot -> Entries.Change?? in
            // Without a new base the held value stays: the newer parts of the other are unknown.
            let fetched = entries.fetchedBase(box, of: query, askedAt: fetchNumber, over: snapshot)
            let change = fetched.map { snapshot.adopting($0) }
            answer = change?.shown ?? snapshot.value?.shown ?? box
            return .some(change)
        } commit: { change, entry, guarded in
            let actions = entry.state.complete(
                fetchNumber,
                at: arrival.asOf,
                day: arrival.day(in: guarded.zone),
                isAmbiguous: change == nil,
                nextFetch: guarded.nextNumber()
            )
            guard let actions else { return nil }
            entry.fetchTask = nil
            if actions.isOvertaken {
                answer = entry.box ?? answer
            } else if let change {
                if query.policy.adaptive != nil {
                    entry.adaptive.fetchCompleted(changed: !change.looksSame, at: arrival.asOf)
                }
                entries.store(change, arrival, entry, in: &guarded)
            }
            return actions
        }
    }

    private func completeFetch(
        from source: any EntrySource,
        _ fetchNumber: UInt64,
        _ arrival: Entries.FetchTiming
    ) {
        var answer: Entry.Answer = .failure(.balanceUnsettled)
        entries.show(source, answer: answer) { entry, guarded in
            let actions = entry.state.complete(
                fetchNumber,
                at: arrival.asOf,
                nextFetch: guarded.nextNumber()
            )
            guard let actions else { return nil }
            entry.fetchTask = nil
            entry.recordCheck(at: arrival.asOf)
            if let box = entry.box { answer = .success(box) }
            return actions
        }
    }

    private func fail(
        _ query: ErasedQuery,
        fetchNumber: UInt64,
        with error: SanguineError
    ) {
        var answer = Entry.Answer.failure(error)
        entries.apply(query, answer: answer) { entry, guarded in
            let actions = entry.state.fail(
                fetchNumber,
                error: error,
                nextFetch: guarded.nextNumber()
            )
            guard let actions else { return nil }
            entry.fetchTask = nil
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
        var (isWaiting, mustAskClock, step) = (false, false, StepLog.Step?.none)
        entries.apply(query, creating: true) { entry, guarded in
            guard entry.serves(query) else {
                answer = .failure(.conflictingQuery(name: query.name))
                return nil
            }
            // Callers share the query: assigning the same one would only cost reference counting.
            if entry.query !== query { entries.replaceQuery(of: entry, with: query) }
            guarded.table.use(entry)
            if !refreshing, let box = entry.box {
                // A value that arrived after the clock was read is not from the future.
                guard let now, entry.state.held.map({ $0.asOf <= now }) ?? true || isLast else {
                    mustAskClock = true
                    return nil
                }
                if entry.isFresh(query.policy, at: now, in: guarded.zone) {
                    entry.metrics.hit()
                    step = .hit
                    answer = .success(box)
                    return nil
                }
            }
            if entry.box == nil { entry.metrics.miss() } else { entry.metrics.staleHit() }
            step = entry.state.isFetching ? .shared : .miss
            if priority != .prefetch { guarded.user.allowSignIn() }
            entry.waiters[waiter] = continuation
            isWaiting = true
            raised = entry.recordPriority(priority)
            let actions = entry.state.join(waiter: waiter, nextFetch: guarded.nextNumber())
            // Joining a running fetch changes nothing that observers see.
            return actions.start == nil ? nil : actions
        }
        // The app's clock is read with no lock held, and only if there is a value to check.
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
        if let steps, let step { steps.log(step, .query(query.name, query.key)) }
        if !isWaiting { continuation.resume(returning: answer ?? .failure(.closed)) }
        raised?.raise(to: priority)
    }

    /// Removes a caller that gave up.
    func leave(_ query: ErasedQuery, _ waiter: UInt64) {
        entries.apply(query) { entry, _ in entry.state.leave(waiter: waiter) }
    }
}
