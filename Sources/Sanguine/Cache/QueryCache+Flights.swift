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
        epoch: UInt64,
        priority: RequestPriority
    ) async {
        let requestEpoch: SessionEpoch? =
            query.policy.audience == .user ? SessionEpoch(number: epoch, account: nil) : nil
        let departure = clock.now()
        let counters = query.countsFlights ? metrics.named(query.name) : nil
        let ticket = counters?.flightBegan()
        var plan = query.plan
        plan.metrics = counters
        let attempted = AttemptCount()
        plan.attempts = attempted
        let outcome = await attempts.fetch(
            plan,
            epoch: requestEpoch,
            priority: priority,
            query.fetch
        )
        if let ticket {
            counters?.flightEnded(
                ticket,
                outcome: FlightOutcome(outcome),
                attempts: attempted.value
            )
        }
        switch outcome {
        case .success(let box):
            land(box, of: query, flight: flight, epoch: epoch, departure: departure)
        case .failure(let error):
            fail(query, flight: flight, epoch: epoch, with: error)
        }
    }

    private func land(
        _ box: ValueBox,
        of query: ErasedQuery,
        flight: UInt64,
        epoch: UInt64,
        departure: Timestamp
    ) {
        let present = authorizer.epoch
        guard query.policy.audience != .user || present.number == epoch else {
            return fail(query, flight: flight, epoch: epoch, with: .userChanged)
        }
        adoptAccount(present)
        let arrival = Arrival(of: query, since: departure, at: clock.now(), epoch: present)
        while !land(box, of: query, flight, epoch, arrival) {}
    }

    // Returns whether that is all: not if other operations have come meanwhile.
    private func land(
        _ box: ValueBox,
        of query: ErasedQuery,
        _ flight: UInt64,
        _ epoch: UInt64,
        _ arrival: Arrival
    ) -> Bool {
        let (old, list) = ground(of: query)
        // Without one the held value stays: what is new in the other cannot be told.
        let landing = fetchedBase(box, of: query, askedAt: flight, list, over: old)
        let shown = landing?.shown ?? old?.shown ?? box
        let isEqual = old?.shown.isEqual(to: shown) ?? false
        var answer = shown
        var (isKept, mustRetry) = (false, false)
        change(query, answer: .success(answer)) { record, guarded in
            guard guarded.effects.list(of: query.key)?.version == list?.version,
                landing?.notes.isPatched != true || matches(record, old, list, in: guarded)
            else {
                mustRetry = true
                return nil
            }
            guard record.serves(query),
                let effect = record.state.land(
                    flight,
                    epoch: epoch,
                    at: arrival.asOf,
                    day: arrival.day(in: guarded.zone),
                    isAmbiguous: landing == nil,
                    nextFlight: guarded.nextNumber()
                )
            else { return nil }
            record.flight = nil
            if effect.isOvertaken {
                answer = record.box ?? shown
            } else if let landing {
                let isUnchanged = old.map { $0.version == record.version } ?? true
                if isUnchanged, query.policy.adaptive != nil {
                    record.adaptive.landed(changed: !isEqual, at: arrival.asOf)
                }
                isKept = take(
                    landing,
                    shown,
                    isEqual: isEqual && record.version == old?.version,
                    arrival,
                    record,
                    in: &guarded
                )
            }
            return effect
        }
        if isKept, writer.isBehind { writer.flush() }
        return !mustRetry
    }

    private func fail(
        _ query: ErasedQuery,
        flight: UInt64,
        epoch: UInt64,
        with error: SanguineError
    ) {
        var answer = QueryRecord.Answer.failure(error)
        change(query, answer: answer) { record, guarded in
            let effect = record.state.fail(
                flight,
                epoch: epoch,
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
        _ priority: FetchPriority
    ) {
        let now = clock.now()
        var answer: QueryRecord.Answer?
        var raised: RequestPriority?
        var isWaiting = false
        change(query, creating: true) { record, guarded in
            guard record.serves(query) else {
                answer = .failure(.conflictingQuery(name: query.name))
                return nil
            }
            record.query = query
            guarded.use(record)
            if !refreshing, let box = record.box,
                record.isFresh(query.policy, at: now, in: guarded.zone)
            {
                record.metrics.hit()
                answer = .success(box)
                return nil
            }
            if record.box == nil { record.metrics.miss() } else { record.metrics.staleHit() }
            record.waiters[waiter] = continuation
            isWaiting = true
            raised = record.want(priority)
            let effect = record.state.join(waiter: waiter, nextFlight: guarded.nextNumber())
            // Who joins a flight changes nothing that anybody is to be told.
            return effect.start == nil ? nil : effect
        }
        if !isWaiting { continuation.resume(returning: answer ?? .failure(.closed)) }
        raised?.raise(to: priority)
    }

    /// A caller gives up.
    func leave(_ query: ErasedQuery, _ waiter: UInt64) {
        change(query) { record, _ in record.state.leave(waiter: waiter) }
    }
}
