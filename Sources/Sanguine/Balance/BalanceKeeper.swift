import Foundation
import Logging
import SanguineModel
import Synchronization

/// The source of the balance's entry, and of the quotas': what the server says, and one user's
/// calls on top of it.
///
/// ``SpendingState`` decides; this stores, fetches, and sees calls through that wait for a balance.
/// Whatever comes after the user's end is ignored.
///
/// Invariants:
///
/// 1. What is stored is never older than what was stored before it.
/// 2. While calls wait for a balance and the user is there, a fetch is under way or one is
///    scheduled: a hold that nobody answers does not stay on the screen.
///
/// Mutable state: `guarded`, by its mutex, never held over I/O or over the cache. And the stored
/// state, by `stored`, which is held over the write: those who wait for it find their own change
/// written too, and go on without a write of their own.
final class BalanceKeeper: EntrySource {
    static let stateName = "balance"

    /// What the cache does for the source.
    struct Handlers: Sendable {
        /// Shows the newest value.
        var changed: @Sendable () -> Void
        /// Has a query fetched, although it may be fresh; returns why that failed.
        var refresh: @Sendable (ErasedQuery) async -> SanguineError?
    }

    private struct Guarded {
        var state: SpendingState
        var handlers: Handlers?
        /// Fetches for the calls that wait for a balance.
        var settling: Task<Void, Never>?
        /// Waits to do so again.
        var waiting: Task<Void, Never>?
        /// Whether a call ended while that fetch was under way, so that it may not be in it.
        var mustSettleAgain = false
        /// How many fetches in a row have left calls unsettled.
        var vainFetches = 0
        /// Why nothing changes any more.
        var ending: SanguineError?
        /// Counts changes; says what is stored, and what is shown.
        var revision: UInt64 = 1
    }

    let query = ValueQuery<Balance>.balance.erased
    private let guarded: Mutex<Guarded>
    private let stored = Mutex<UInt64>(0)
    private let store: ClientStore
    private let configuration: SanguineClient.Configuration

    /// Restores what an earlier process left for the user.
    init(
        configuration: SanguineClient.Configuration,
        store: ClientStore,
        account: Identifier?
    ) {
        self.configuration = configuration
        self.store = store
        var state = SpendingState()
        if let data = try? store.state(Self.stateName), let archive = SpendingArchive(data) {
            state = SpendingState(restoring: archive)
        }
        if let account { state.signedIn(account) }
        guarded = Mutex(Guarded(state: state))
    }

    /// Has the cache told from now on.
    func onChange(_ handlers: Handlers) { guarded.withLock { $0.handlers = handlers } }

    /// The last balances that the server gave, the newest last.
    var history: [RecordedBalance] { guarded.withLock { $0.state.balance.history } }

    /// Our calls that the base does not contain, for tests and diagnosis.
    var pendingCalls: [PendingCharge] { guarded.withLock { $0.state.balance.calls } }

    /// The calls whose answers the app has not been given.
    var openCalls: [OpenCall] { guarded.withLock { $0.state.calls.calls } }

    /// The call of that key whose answer the app has not been given.
    func openCall(_ key: String) -> OpenCall? { guarded.withLock { $0.state.calls[key] } }

    /// What the next call of a function will probably cost.
    func prediction(of function: String, orElse declared: Int64) -> PredictedCost {
        guarded.withLock { $0.state.balance.costs.prediction(of: function, orElse: declared) }
    }

    /// The user's account has become known.
    func signedIn(_ account: Identifier) {
        change { $0.state.signedIn(account) }
        persist()
    }

    /// Ends all waiting; nothing changes any more.
    func end(_ reason: SanguineError) {
        guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            guarded.settling?.cancel()
            guarded.waiting?.cancel()
            (guarded.settling, guarded.waiting, guarded.handlers) = (nil, nil, nil)
        }
    }

    /// Writes what has changed since the last write.
    ///
    /// Durable when it returns.
    func persist() {
        stored.withLock { stored in
            let (revision, archive, isOver) = guarded.withLock {
                ($0.revision, SpendingArchive($0.state), $0.ending != nil)
            }
            guard revision > stored, !isOver else { return }
            do {
                try store.setState(Self.stateName, try archive.encoded())
                stored = revision
            } catch StoreError.closed {
                // The user has left meanwhile.
            } catch {
                // The number stays right in this process; the next fetch repairs a later one's.
                configuration.logger.error(
                    "The balance could not be stored.",
                    metadata: ["reason": "\(error)"]
                )
            }
        }
    }

    /// The one door through which anything changes.
    @discardableResult
    private func change<Outcome>(_ body: (inout Guarded) -> Outcome) -> Outcome {
        let (outcome, handlers) = guarded.withLock { guarded in
            let outcome = body(&guarded)
            guarded.revision += 1
            return (outcome, guarded.handlers)
        }
        handlers?.changed()
        return outcome
    }
}

// MARK: - Feed

extension BalanceKeeper {
    /// The feed has a balance: the base, unless calls of ours are in flight that it may have in it.
    func received(_ balance: Balance) {
        let now = configuration.clock.now()
        change { guarded in
            guard guarded.ending == nil else { return }
            guarded.state.fetched(balance, for: BalanceInquiry(keys: [], idle: []), at: now)
        }
        persist()
        settle()
    }

    /// All quotas have become known.
    func received(_ quotas: [Quota]) {
        let now = configuration.clock.now()
        change { $0.state.fetched(quotas, head: nil, at: now) }
    }

    /// The feed has a quota.
    ///
    /// - Returns: Whether it is one of those that are known.
    func received(_ quota: Quota, head: Int64) -> Bool {
        let now = configuration.clock.now()
        let isKnown = change { guarded in
            guard guarded.ending == nil else { return true }
            return guarded.state.received(quota, head: head, at: now)
        }
        if isKnown { persist() }
        return isKnown
    }
}

// MARK: - Fetching

extension BalanceKeeper {
    func present() -> SourcedValue {
        guarded.withLock { guarded in
            SourcedValue(
                revision: guarded.revision,
                box: guarded.state.balance.visible.map { .of($0) },
                asOf: guarded.state.balance.base?.receivedAt,
                isOutdated: guarded.state.balance.wantsFetch
            )
        }
    }

    /// The quotas, as the user sees them.
    func presentQuotas() -> SourcedValue {
        guarded.withLock { guarded in
            SourcedValue(
                revision: guarded.revision,
                box: guarded.state.quotas.visible.map { .of($0) },
                asOf: guarded.state.quotas.receivedAt,
                isOutdated: guarded.state.quotas.wantsFetch
            )
        }
    }

    /// Fetches the quotas.
    ///
    /// All of it takes at most ``ClientLimits/readTimeout``.
    func fetchQuotas(_ request: QueryRequest) async throws(SanguineError) {
        let limit = TimeLimit(ClientLimits.readTimeout, on: configuration.delay)
        do throws(SanguineError) {
            let answer = try await attempt(
                "/v1/quotas",
                as: Items<Quota>.self,
                request.backend,
                within: limit
            )
            let now = configuration.clock.now()
            change { guarded in
                guard guarded.ending == nil else { return }
                guarded.state.fetched(answer.value.items, head: answer.head, at: now)
            }
        } catch {
            settleLater(after: error)
            throw error
        }
        persist()
        settleLater(after: nil)
    }

    /// Fetches the balance, again if need be.
    ///
    /// A first one may be ambiguous, if a call began meanwhile or too many are open to ask about at
    /// once. All of it takes at most ``ClientLimits/balanceTimeout``.
    func fetch(_ request: QueryRequest) async throws(SanguineError) {
        let limit = TimeLimit(ClientLimits.balanceTimeout, on: configuration.delay)
        let rounds = 1 + guarded.withLock { $0.state.balance.inquiries }
        do throws(SanguineError) {
            for _ in 1...rounds {
                let inquiry = guarded.withLock { $0.state.balance.inquiry() }
                let keys = inquiry.keys.joined(separator: ",")
                let balance = try await attempt(
                    "/v1/balance",
                    query: keys.isEmpty ? [] : [URLQueryItem(name: "operations", value: keys)],
                    as: Balance.self,
                    request.backend,
                    within: limit
                )
                .value
                let now = configuration.clock.now()
                let isKnown = change { guarded -> Bool in
                    guard guarded.ending == nil else { return true }
                    guarded.state.fetched(balance, for: inquiry, at: now)
                    return guarded.state.balance.base != nil
                }
                if isKnown { break }
            }
        } catch {
            settleLater(after: error)
            throw error
        }
        persist()
        settleLater(after: nil)
    }

    private func attempt<Value: Decodable & Sendable>(
        _ path: String,
        query: [URLQueryItem] = [],
        as type: Value.Type,
        _ backend: QueryRequest.Backend,
        within limit: TimeLimit
    ) async throws(SanguineError) -> ServerCall.Answer<Value> {
        let (call, retries) = (backend.call, backend.retries)
        let host = call.server?.hostKey ?? ""
        let schedule = configuration.schedule(.standard)
        var failures = 0
        var last: SanguineError?
        retries.requested(host)
        while true {
            do throws(SanguineError) {
                return try await call.get(path, query: query, within: limit, as: type)
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
                    throw isOver ? last.map { .timedOut(after: $0) } ?? error : error
                }
                last = error
            }
        }
    }
}

// MARK: - Settling

extension BalanceKeeper {
    /// Fetches now, if calls wait for a balance and nothing else brings one.
    private func settle() {
        guarded.withLock { guarded in
            guard guarded.state.wantsFetch, let refresh = guarded.handlers?.refresh else { return }
            guard guarded.settling == nil else {
                guarded.mustSettleAgain = true
                return
            }
            guarded.waiting?.cancel()
            guarded.waiting = nil
            let isBalance = guarded.state.balance.wantsFetch
            guarded.settling = Task { [weak self, query] in
                var error = isBalance ? await refresh(query) : nil
                // The quotas after what the balance has told of the calls.
                if self?.guarded.withLock({ $0.state.quotas.wantsFetch }) ?? false {
                    let other = await refresh(ValueQuery<[Quota]>.quotas.erased)
                    error = error ?? other
                }
                self?.hasSettled(error)
            }
        }
    }

    private func hasSettled(_ error: SanguineError?) {
        let mustSettleAgain = guarded.withLock { guarded in
            guarded.settling = nil
            defer { guarded.mustSettleAgain = false }
            return guarded.mustSettleAgain
        }
        if mustSettleAgain { settle() } else { settleLater(after: error) }
    }

    /// Schedules another fetch for the calls that the last one left unsettled.
    private func settleLater(after error: SanguineError?) {
        guarded.withLock { guarded in
            guard guarded.settling == nil, guarded.ending == nil else { return }
            guarded.waiting?.cancel()
            guarded.waiting = nil
            guard guarded.state.wantsFetch else {
                guarded.vainFetches = 0
                return
            }
            guarded.vainFetches += 1
            var random = configuration.random
            let backoff = BalanceLimits.settling.backoff(
                afterFailures: guarded.vainFetches,
                using: &random
            )
            let (delay, pause) = (configuration.delay, max(backoff, error?.retryAfter ?? .zero))
            guarded.waiting = Task { [weak self] in
                guard (try? await delay.sleep(for: pause)) != nil, !Task.isCancelled else { return }
                self?.settle()
            }
        }
    }
}

// MARK: - Calls

extension BalanceKeeper {
    /// Shows what a call takes, at once.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `overloaded` if too many calls are pending, and
    ///   ``SanguineError/userChanged`` if the user is gone.
    func began(_ call: OpenCall, _ terms: SpendingState.Terms) throws(SanguineError) {
        let refusal = change { guarded -> SanguineError? in
            if let ending = guarded.ending { return ending }
            return guarded.state.began(call, terms) ? nil : .problem(Self.tooManyCalls)
        }
        if let refusal { throw refusal }
    }

    /// A call that has waited for a network is sent: stored when this returns.
    func sends(_ key: String) {
        guard openCall(key)?.state == .waiting else { return }
        change { guarded in
            if guarded.ending == nil { guarded.state.sends(key) }
        }
        persist()
    }

    /// Takes in how a call ended, stores it, and fetches if nothing else brings a base.
    func ended(_ event: (inout SpendingState) -> Void) {
        change { guarded in
            if guarded.ending == nil { event(&guarded.state) }
        }
        persist()
        settle()
    }

    private static let tooManyCalls = Problem(
        .overloaded,
        """
        \(BalanceLimits.pendingCalls) calls wait for their answers, or \
        \(BalanceLimits.queuedCalls) for a network. Wait for some of them before you make more.
        """
    )
}

/// The source of the quotas' entry.
final class QuotaSource: EntrySource {
    let query = ValueQuery<[Quota]>.quotas.erased
    private let keeper: BalanceKeeper

    init(_ keeper: BalanceKeeper) { self.keeper = keeper }

    func present() -> SourcedValue { keeper.presentQuotas() }

    func fetch(_ request: QueryRequest) async throws(SanguineError) {
        try await keeper.fetchQuotas(request)
    }
}
