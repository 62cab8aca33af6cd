import Foundation
import Logging
import SanguineModel
import Synchronization

/// The source of the balance and the quotas: the server's numbers, adjusted by a user's calls.
///
/// ``SpendingState`` makes the decisions; this class stores the state, and fetches until the
/// balance contains every call. Events after the user has left are ignored.
///
/// Invariants:
///
/// 1. The stored state never goes backward. A call's request is stored and removed with the call.
/// 2. While calls wait for a balance and the user is signed in, a fetch is in progress or
///    scheduled, so that no hold stays on the screen forever.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during I/O or a call to
/// the cache. The stored state, by `stored`, which is held during the write: callers that wait for
/// it find their change written.
final class BalanceKeeper: EntrySource {
    static let stateName = "balance"

    /// The source's callbacks into the cache.
    struct Handlers: Sendable {
        /// Shows the latest value.
        var changed: @Sendable () -> Void
        /// Fetches a query even if it is fresh; returns the error if that fails.
        var refresh: @Sendable (ErasedQuery) async -> SanguineError?
    }

    private struct Guarded {
        var state: SpendingState
        var handlers: Handlers?
        /// A fetch for the calls that wait for a balance.
        var settling: Task<Void, Never>?
        /// The delay before the next such fetch.
        var waiting: Task<Void, Never>?
        /// Whether a call ended during that fetch, so that the result may not contain it.
        var mustSettleAgain = false
        /// The number of consecutive fetches that left calls unsettled.
        var vainFetches = 0
        /// A task that waits for the start of a quota's next day.
        var nextDayTask: (moment: Timestamp, task: Task<Void, Never>)?
        /// The reason why the state no longer changes.
        var ending: SanguineError?
        /// Counts changes, to track which of them are stored and which are shown.
        var revision: UInt64 = 1
        /// The requests of open calls that are not on disk yet, by key.
        var requests: [String: Data] = [:]

        /// Returns the requests to write with the state, and the keys of all calls with a request.
        mutating func unwrittenRequests() -> (requests: [String: Data], open: Set<String>) {
            let open = state.calls.withRequests
            requests = requests.filter { open.contains($0.key) }
            return (requests, open)
        }
    }

    private struct Stored {
        var revision: UInt64 = 0
        /// The calls whose requests are on disk.
        var requests: Set<String> = []
    }

    let query = ValueQuery<Balance>.balance.erased
    private let guarded: Mutex<Guarded>
    private let stored: Mutex<Stored>
    private let store: ClientStore
    private let configuration: SanguineClient.Configuration
    private let metrics: ClientMetrics?
    private let zone: @Sendable () -> TimeZone

    /// Restores the state that an earlier process stored for the user.
    init(
        configuration: SanguineClient.Configuration,
        metrics: ClientMetrics? = nil,
        store: ClientStore,
        zone: @escaping @Sendable () -> TimeZone,
        account: Identifier?
    ) {
        self.configuration = configuration
        self.metrics = metrics
        self.zone = zone
        self.store = store
        let archive = (try? store.state(Self.stateName)).flatMap { SpendingArchive($0) }
        var state = archive.map { SpendingState(restoring: $0) } ?? SpendingState()
        stored = Mutex(Stored(requests: state.calls.withRequests))
        if let account { state.signedIn(account) }
        guarded = Mutex(Guarded(state: state))
    }

    /// Sets the callbacks into the cache.
    func onChange(_ handlers: Handlers) {
        guarded.withLock { $0.handlers = handlers }
        startNewQuotaDays()
        guarded.withLock { waitForTurn(&$0) }
    }

    /// The last balances from the server, newest last.
    var history: [RecordedBalance] { guarded.withLock { $0.state.balance.history } }

    /// The number in the feed of the balance that is shown; `nil` before the first one.
    var shownHead: Int64? { guarded.withLock { $0.state.balance.base?.balance.head } }

    /// The calls that the balance does not contain, and the number and epoch of the balance.
    var settlement: (pending: Set<String>, mark: (number: Int64, epoch: Epoch?)) {
        guarded.withLock { guarded in
            let balance = guarded.state.balance
            let number = balance.base?.balance.head ?? 0
            return (Set(balance.calls.map(\.key)), (number, guarded.state.epoch))
        }
    }

    /// The calls of this device that the base does not contain, for tests and diagnosis.
    var pendingCalls: [PendingCharge] { guarded.withLock { $0.state.balance.calls } }

    /// Whether calls or operations that were not sent yet use units of a quota.
    var hasWaitingUnits: Bool { guarded.withLock { !$0.state.quotas.waiting.isEmpty } }

    /// The calls whose answers the app has not read, with their requests from the disk.
    var openCalls: [OpenCall] {
        calls.map { call in
            guard call.isLarge != true else { return call }
            var call = call
            call.request = try? request(of: call.key)
            return call
        }
    }

    /// Returns the body of a call's request; `nil` if it is not kept.
    func request(of key: String) throws(StoreError) -> Data? {
        if let unwritten = guarded.withLock({ $0.requests[key] }) { return unwritten }
        return try store.state(Self.requestName(key))
    }

    private static func requestName(_ key: String) -> String { "call \(key)" }

    /// The calls whose answers the app has not read, without their requests.
    var calls: [OpenCall] { guarded.withLock { $0.state.calls.calls } }

    /// Returns the call of that key, if the app has not read its answer.
    func openCall(_ key: String) -> OpenCall? { guarded.withLock { $0.state.calls[key] } }

    /// Predicts the cost of a function's next call.
    func prediction(of function: String, _ terms: SpendingState.Terms) -> PredictedCost {
        guarded.withLock { $0.state.prediction(of: function, terms) }
    }

    /// The time of day, by the device's clock.
    var now: Timestamp { configuration.clock.now() }

    /// Records the user's account.
    func signedIn(_ account: Identifier) {
        update { $0.state.signedIn(account) }
        persist()
    }

    /// Continues with the account that the guest has become a part of.
    func moved(to account: Identifier, from former: Identifier) {
        update { $0.state.moved(to: account, from: former) }
        persist()
    }

    /// Ends all waits; after this, nothing changes.
    func end(_ reason: SanguineError) {
        guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            guarded.settling?.cancel()
            guarded.waiting?.cancel()
            guarded.nextDayTask?.task.cancel()
            (guarded.settling, guarded.waiting, guarded.nextDayTask) = (nil, nil, nil)
            guarded.handlers = nil
        }
    }

    /// Writes changes since the last write.
    ///
    /// They are durable when this returns; a failure is logged.
    func persist() {
        do {
            try write()
        } catch .closed {
            // The user has signed out in the meantime.
        } catch {
            // The number stays correct in this process; after a restart, the next fetch corrects
            // it.
            configuration.logger.error(
                "The balance could not be stored.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    /// Like ``persist()``, but throws, for a caller that continues only if the state is stored.
    func write() throws(StoreError) {
        try stored.withLock { stored throws(StoreError) in
            let (revision, archive, requests, open, isOver) = guarded.withLock { guarded in
                let (requests, open) = guarded.unwrittenRequests()
                let archive = SpendingArchive(guarded.state)
                return (guarded.revision, archive, requests, open, guarded.ending != nil)
            }
            guard revision > stored.revision, !isOver else { return }
            var states: [String: Data?] = [Self.stateName: try archive.encoded()]
            for key in stored.requests.subtracting(open) {
                states.updateValue(nil, forKey: Self.requestName(key))
            }
            for (key, request) in requests { states[Self.requestName(key)] = request }
            try store.setStates(states)
            stored.revision = revision
            stored.requests = open
            guarded.withLock { for key in requests.keys { $0.requests[key] = nil } }
        }
    }

    /// Makes a change; this is the only way in which the state changes.
    @discardableResult
    private func update<Outcome>(_ body: (inout Guarded) -> Outcome) -> Outcome {
        let (outcome, handlers, mismatches) = guarded.withLock { guarded in
            let before = guarded.state.balance.mismatches
            let outcome = body(&guarded)
            guarded.revision += 1
            waitForTurn(&guarded)
            return (outcome, guarded.handlers, guarded.state.balance.mismatches - before)
        }
        if mismatches > 0 { metrics?.countBalanceMismatch() }
        handlers?.changed()
        return outcome
    }
}

// MARK: - Days

extension BalanceKeeper {
    /// Starts the new days of quotas; called before each read and when a day begins.
    func startNewQuotaDays() {
        let (now, zone) = (configuration.clock.now(), zone())
        let isDue = guarded.withLock { guarded in
            guarded.ending == nil && guarded.state.quotas.nextDayStart.map { $0 <= now } ?? false
        }
        if isDue { update { $0.state.startNewQuotaDays(at: now, in: zone) } }
    }

    /// Schedules the notification of observers for the start of a quota's next day.
    private func waitForTurn(_ guarded: inout Guarded) {
        let moment = guarded.handlers == nil ? nil : guarded.state.quotas.nextDayStart
        guard moment != guarded.nextDayTask?.moment else { return }
        guarded.nextDayTask?.task.cancel()
        guarded.nextDayTask = moment.map { moment in
            let (clock, delay) = (configuration.clock, configuration.delay)
            let task = Task { [weak self] in
                // The two clocks differ slightly. If they differ more, the next read starts the
                // day.
                for _ in 0..<3 where clock.now() < moment {
                    let left = moment - clock.now()
                    guard (try? await delay.sleep(for: left)) != nil else { return }
                }
                self?.startNewQuotaDays()
            }
            return (moment, task)
        }
    }
}

// MARK: - Feed

extension BalanceKeeper {
    /// Records a balance from the feed, which becomes the new base unless it may contain calls in
    /// progress.
    func received(_ balance: Balance, _ epoch: Epoch? = nil) {
        let now = configuration.clock.now()
        update { guarded in
            guard guarded.ending == nil, guarded.state.enter(epoch) else { return }
            guarded.state.fetched(balance, for: BalanceInquiry(keys: [], idle: []), at: now)
        }
        persist()
        settle()
    }

    /// Records the list of all quotas.
    func received(_ quotas: [Quota]) {
        let now = configuration.clock.now()
        update { $0.state.fetched(quotas, head: nil, at: now) }
    }

    /// Records a quota from the feed.
    ///
    /// - Returns: Whether the quota is known.
    func received(_ quota: Quota, head: Int64, _ epoch: Epoch? = nil) -> Bool {
        let now = configuration.clock.now()
        let isKnown = update { guarded in
            guard guarded.ending == nil, guarded.state.enter(epoch) else { return true }
            return guarded.state.received(quota, head: head, at: now)
        }
        if isKnown { persist() }
        return isKnown
    }
}

// MARK: - Fetching

extension BalanceKeeper {
    func currentValue() -> SourcedValue {
        guarded.withLock { guarded in
            SourcedValue(
                revision: guarded.revision,
                box: guarded.state.balance.visible.map { .of($0) },
                asOf: guarded.state.balance.base?.receivedAt,
                isOutdated: guarded.state.balance.wantsFetch
            )
        }
    }

    /// The quotas as they are shown to the user.
    func currentQuotas() -> SourcedValue {
        guarded.withLock { guarded in
            SourcedValue(
                revision: guarded.revision,
                box: guarded.state.quotas.visible.map { .of($0) },
                asOf: guarded.state.quotas.receivedAt,
                isOutdated: guarded.state.quotas.wantsFetch || guarded.state.quotas.isOutdated
            )
        }
    }

    /// Fetches the quotas.
    ///
    /// Takes at most ``ClientLimits/readTimeout`` in total.
    func fetchQuotas(_ request: QueryRequest) async throws(SanguineError) {
        let limit = TimeLimit(ClientLimits.readTimeout, on: configuration.delay)
        try await fetching { () throws(SanguineError) in
            let asked = guarded.withLock { $0.state.epoch }
            let answer = try await attempt(
                "/v1/quotas",
                as: Items<Quota>.self,
                request.backend,
                within: limit
            )
            let now = configuration.clock.now()
            return update { guarded in
                guard guarded.ending == nil else { return nil }
                guard guarded.state.enter(answer.epoch, asked: asked) else { return 1 }
                guarded.state.fetched(answer.value.items, head: answer.head, at: now)
                return nil
            }
        }
    }

    /// Fetches the balance, several times if necessary.
    ///
    /// The first answer may be ambiguous: a call began in the meantime, more calls are open than
    /// one request may ask about, or a new epoch has begun, in which settled calls are asked about
    /// again. Takes at most ``ClientLimits/balanceTimeout`` in total.
    func fetch(_ request: QueryRequest) async throws(SanguineError) {
        let limit = TimeLimit(ClientLimits.balanceTimeout, on: configuration.delay)
        try await fetching { () throws(SanguineError) in
            let (inquiry, asked) = guarded.withLock { ($0.state.balance.inquiry(), $0.state.epoch) }
            let keys = inquiry.keys.joined(separator: ",")
            let answer = try await attempt(
                "/v1/balance",
                query: keys.isEmpty ? [] : [URLQueryItem(name: "operations", value: keys)],
                as: Balance.self,
                request.backend,
                within: limit
            )
            let now = configuration.clock.now()
            return update { guarded in
                guard guarded.ending == nil else { return nil }
                if guarded.state.enter(answer.epoch, asked: asked) {
                    guarded.state.fetched(answer.value, for: inquiry, at: now)
                    if guarded.state.balance.isOfEpoch { return nil }
                }
                return guarded.state.balance.inquiries
            }
        }
    }

    /// Fetches until the body returns `nil`, and at most as many more times as it returns.
    ///
    /// This repeats a fetch whose answer belongs to an epoch that is over.
    private func fetching(
        _ fetchOnce: () async throws(SanguineError) -> Int?
    ) async throws(SanguineError) {
        var rounds = 0
        do throws(SanguineError) {
            while let more = try await fetchOnce(), rounds < more { rounds += 1 }
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
                // A retry that would come too late must not consume retry budget.
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
    /// Fetches now if calls wait for a balance and no other event will supply one.
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
                // The quotas come second, and include what the balance has settled.
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
            guard guarded.state.wantsFetch else { return guarded.vainFetches = 0 }
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
    /// Shows the cost of a call that begins.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `overloaded` if too many calls are pending, and
    ///   ``SanguineError/userChanged`` if the user has left.
    func began(_ call: OpenCall, _ terms: SpendingState.Terms) throws(SanguineError) {
        let refusal = update { guarded -> SanguineError? in
            if let ending = guarded.ending { return ending }
            var stripped = call
            stripped.request = nil
            if call.state != .waiting {
                let cost = guarded.state.prediction(of: call.function, terms).expected
                let refusal = guarded.state.balance.refusal(ofCost: cost, at: call.begunAt)
                if let refusal { return .problem(refusal) }
            }
            guard guarded.state.began(stripped, terms) else { return .problem(.tooManyCalls) }
            if call.keepsRequest { guarded.requests[call.key] = call.request }
            return nil
        }
        if let refusal { throw refusal }
        guard let steps = metrics?.steps else { return }
        let held = guarded.withLock { $0.state.balance.call(call.key)?.predicted } ?? 0
        steps.log(.hold, .call(call.function, key: call.key), amount: held)
    }

    /// Records that a call that was waiting for a network is being sent; stored when this returns.
    func sends(_ key: String) {
        guard openCall(key)?.state == .waiting else { return }
        update { if $0.ending == nil { $0.state.sends(key) } }
        persist()
    }

    /// Records the end of a call, stores it, and fetches if no other event will supply a base.
    func ended(_ event: (inout SpendingState) -> Void) {
        update { if $0.ending == nil { event(&$0.state) } }
        persist()
        settle()
    }

    /// Removes an open call whose result the app has read.
    ///
    /// Written when this returns, off the caller's actor.
    @concurrent func resultRead(_ key: String) async {
        let call = openCall(key)
        if let call, !call.hasEnded { return }
        if call != nil { update { if $0.ending == nil { $0.state.resultRead(key) } } }
        persist()  // Waits for another reader's write.
    }
}
