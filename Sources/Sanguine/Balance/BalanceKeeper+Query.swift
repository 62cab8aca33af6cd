import Foundation
import SanguineModel
import Synchronization

// The balance as a query: `cached`, `value`, `updates`, and the fetch behind them.
extension BalanceKeeper {
    func cached() -> Balance? { guarded.withLock { $0.shown.value } }

    func snapshot() -> QueryState<Balance> { guarded.withLock { $0.shown } }

    func value() async throws(SanguineError) -> Balance {
        let now = configuration.clock.now()
        let fresh = guarded.withLock { $0.isFresh(at: now) ? $0.shown.value : nil }
        if let fresh { return fresh }
        return try await refresh()
    }

    func refresh() async throws(SanguineError) -> Balance {
        // The fetch that is under way may be from before an invalidation; and a first balance may
        // be ambiguous, if a call began meanwhile or too many are open to ask about at once. The
        // next ones are neither.
        let attempts = 1 + guarded.withLock { $0.state.inquiries }
        for _ in 1...attempts {
            let wasOutdated = guarded.withLock { $0.isFetchOutdated }
            try await join()
            if !wasOutdated, let balance = cached() { return balance }
        }
        throw .balanceUnsettled
    }

    func invalidate() {
        let isObserved = guarded.withLock { guarded in
            guarded.isInvalidated = true
            guarded.isFetchOutdated = guarded.fetch != nil
            return !guarded.observers.isEmpty
        }
        if isObserved { fetch() }
    }

    /// Fetches, if anybody observes.
    func poll() {
        guard guarded.withLock({ !$0.observers.isEmpty }) else { return }
        fetch()
    }

    /// Has the hook told of each who observes, and of each who no longer does.
    func onObserved(_ hook: @escaping ObservationHook) {
        observationHook.withLock { $0 = hook }
    }

    func updates() -> AsyncStream<QueryState<Balance>> {
        // Each element is whole, so the newest is all that a slow reader needs.
        let (stream, continuation) = AsyncStream.makeStream(
            of: QueryState<Balance>.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let now = configuration.clock.now()
        let (number, isFresh) = guarded.withLock { guarded -> (Int?, Bool) in
            continuation.yield(guarded.shown)
            guard !guarded.isClosed else { return (nil, true) }
            let number = guarded.nextObserver
            guarded.nextObserver += 1
            guarded.observers[number] = continuation
            return (number, guarded.isFresh(at: now))
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        let polling = configuration.balancePolling
        let hook = observationHook.withLock { $0 }
        hook?(true, polling)
        continuation.onTermination = { [weak self] _ in
            self?.leave { $0.observers[number] = nil }
            hook?(false, polling)
        }
        if !isFresh { fetch() }
        return stream
    }

    /// Waits for a fetch, which others may wait for too.
    ///
    /// Who is cancelled disturbs no other; the last one who leaves ends the fetch.
    private func join() async throws(SanguineError) {
        let outcome = fetch(isAwaited: true)
        defer {
            leave { if $0.fetch?.outcome === outcome { $0.fetch?.waiters -= 1 } }
        }
        try await outcome.value()
    }

    /// Takes a reader out, and ends the fetch that nobody wants any more.
    private func leave(_ body: (inout Guarded) -> Void) {
        let unwanted = change { guarded -> Fetch? in
            body(&guarded)
            guard let fetch = guarded.fetch, fetch.waiters == 0, guarded.observers.isEmpty,
                !guarded.state.wantsFetch
            else { return nil }
            guarded.fetch = nil
            guarded.isFetchOutdated = false
            return fetch
        }
        unwanted?.end(with: .cancelled)
    }

    /// Fetches the balance, or joins the fetch that is under way.
    ///
    /// - Parameters:
    ///   - wanted: For whom alone; fails with ``SanguineError/userChanged`` if the epoch is over.
    ///     Default: whoever is there.
    ///   - isAwaited: Whether the caller counts as one who waits, until it leaves.
    /// - Returns: How it ends.
    @discardableResult
    func fetch(for wanted: UInt64? = nil, isAwaited: Bool = false) -> OneShot<Void> {
        change { guarded in
            let outcome = OneShot<Void>()
            if guarded.isClosed {
                outcome.resolve(.failure(.closed))
                return outcome
            }
            if let wanted, wanted != guarded.epoch {
                outcome.resolve(.failure(.userChanged))
                return outcome
            }
            if guarded.fetch == nil {
                guarded.needsAnotherFetch = false
                guarded.settling?.cancel()
                guarded.settling = nil
                let epoch = SessionEpoch(number: guarded.epoch, account: nil)
                let task = Task { [weak self] in
                    guard let self else { return }
                    await run(outcome, epoch)
                }
                guarded.fetch = Fetch(outcome: outcome, task: task)
            }
            if isAwaited { guarded.fetch?.waiters += 1 }
            return guarded.fetch?.outcome ?? outcome
        }
    }

    private func run(_ outcome: OneShot<Void>, _ epoch: SessionEpoch) async {
        let limit = TimeLimit(ClientLimits.balanceTimeout, on: configuration.delay)
        let host = call.server?.hostKey ?? ""
        let schedule = configuration.schedule(.standard)
        var failures = 0
        var last: SanguineError?
        retries.requested(host)
        while true {
            do throws(SanguineError) {
                let inquiry = guarded.withLock { $0.state.inquiry() }
                let balance = try await request(inquiry, epoch, within: limit)
                land(.success((balance, inquiry)), outcome, epoch)
                return
            } catch {
                failures += 1
                var random = configuration.random
                retries.failed(host, with: error)
                let delay = schedule.delay(afterFailures: failures, of: error, using: &random)
                // What would come too late is not taken out of the budget.
                guard let delay, delay < limit.left,
                    let all = retries.wait(delay, by: schedule, for: host, using: &random),
                    all < limit.left,
                    (try? await configuration.delay.sleep(for: all)) != nil
                else {
                    let isOver = error == .transport(.timedOut) && limit.left == .zero
                    let reason = isOver ? last.map { .timedOut(after: $0) } ?? error : error
                    land(.failure(reason), outcome, epoch)
                    return
                }
                last = error
            }
        }
    }

    private func request(
        _ inquiry: BalanceInquiry,
        _ epoch: SessionEpoch,
        within limit: TimeLimit
    ) async throws(SanguineError) -> Balance {
        let keys = inquiry.keys.joined(separator: ",")
        return try await call.get(
            "/v1/balance",
            query: keys.isEmpty ? [] : [URLQueryItem(name: "operations", value: keys)],
            epoch: epoch,
            within: limit,
            as: Balance.self
        ).value
    }

    private func land(
        _ result: Result<(Balance, BalanceInquiry), SanguineError>,
        _ outcome: OneShot<Void>,
        _ epoch: SessionEpoch
    ) {
        let now = configuration.clock.now()
        let goesOn = change { guarded -> Bool in
            guard guarded.fetch?.outcome === outcome, guarded.epoch == epoch.number
            else { return false }
            guarded.fetch = nil
            let isOutdated = guarded.isFetchOutdated
            guarded.isFetchOutdated = false
            var goesOn = false
            switch result {
            case .success(let (balance, inquiry)):
                guarded.error = nil
                guarded.isInvalidated = isOutdated
                guarded.state.fetched(balance, for: inquiry, at: now)
                goesOn =
                    guarded.needsAnotherFetch && guarded.state.wantsFetch
                    || isOutdated && !guarded.observers.isEmpty
            case .failure(let error):
                guarded.error = error
            }
            if !guarded.state.wantsFetch {
                guarded.stopSettling()
            } else if !goesOn {
                settleLater(&guarded, result)
            }
            return goesOn
        }
        persist()
        outcome.resolve(result.map { _ in })
        if goesOn { fetch() }
    }
}

// MARK: - Settling

extension BalanceKeeper {
    /// Schedules another fetch for the calls that the last one left unsettled.
    private func settleLater(
        _ guarded: inout Guarded,
        _ result: Result<(Balance, BalanceInquiry), SanguineError>
    ) {
        guarded.vainFetches += 1
        var random = configuration.random
        var wait = BalanceLimits.settling.backoff(
            afterFailures: guarded.vainFetches,
            using: &random
        )
        if case .failure(let error) = result { wait = max(wait, error.retryAfter ?? .zero) }
        guarded.settling?.cancel()
        let (wanted, delay, pause) = (guarded.epoch, configuration.delay, wait)
        guarded.settling = Task { [weak self] in
            guard (try? await delay.sleep(for: pause)) != nil, !Task.isCancelled else { return }
            self?.fetch(for: wanted)
        }
    }
}

extension BalanceKeeper.Guarded {
    /// Whether the value may be given out without a fetch.
    fileprivate func isFresh(at now: Timestamp) -> Bool {
        state.isFresh(at: now) && !isInvalidated && !state.wantsFetch
    }
}
