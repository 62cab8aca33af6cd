import Foundation
import Logging
import SanguineModel
import Synchronization

/// The source of the balance's entry: the server's balance, and one user's calls on top of it.
///
/// ``BalanceState`` decides; this stores, fetches, and sees calls through that wait for a balance.
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
        /// Has the balance fetched, although it may be fresh; returns why that failed.
        var refresh: @Sendable () async -> SanguineError?
    }

    private struct Guarded {
        var state: BalanceState
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
        var state = BalanceState()
        if let data = try? store.state(Self.stateName), let archive = BalanceArchive(data) {
            state = BalanceState(restoring: archive)
        }
        if let account { state.signedIn(account) }
        guarded = Mutex(Guarded(state: state))
    }

    /// Has the cache told from now on.
    func onChange(_ handlers: Handlers) { guarded.withLock { $0.handlers = handlers } }

    /// The last balances that the server gave, the newest last.
    var history: [RecordedBalance] { guarded.withLock { $0.state.history } }

    /// Our calls that the base does not contain, for tests and diagnosis.
    var pendingCalls: [PendingCharge] { guarded.withLock { $0.state.calls } }

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
                ($0.revision, BalanceArchive($0.state), $0.ending != nil)
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
}

// MARK: - Fetching

extension BalanceKeeper {
    func present() -> SourcedValue {
        let (revision, balance, asOf, isOutdated) = guarded.withLock {
            ($0.revision, $0.state.visible, $0.state.base?.receivedAt, $0.state.wantsFetch)
        }
        return SourcedValue(
            revision: revision,
            box: balance.map { .of($0) },
            asOf: asOf,
            isOutdated: isOutdated
        )
    }

    /// Fetches the balance, again if need be.
    ///
    /// A first one may be ambiguous, if a call began meanwhile or too many are open to ask about at
    /// once. All of it takes at most ``ClientLimits/balanceTimeout``.
    func fetch(_ request: QueryRequest) async throws(SanguineError) {
        let limit = TimeLimit(ClientLimits.balanceTimeout, on: configuration.delay)
        let rounds = 1 + guarded.withLock { $0.state.inquiries }
        do throws(SanguineError) {
            for _ in 1...rounds {
                let inquiry = guarded.withLock { $0.state.inquiry() }
                let balance = try await attempt(inquiry, request.backend, within: limit)
                let now = configuration.clock.now()
                let isKnown = change { guarded -> Bool in
                    guard guarded.ending == nil else { return true }
                    guarded.state.fetched(balance, for: inquiry, at: now)
                    return guarded.state.base != nil
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

    private func attempt(
        _ inquiry: BalanceInquiry,
        _ backend: QueryRequest.Backend,
        within limit: TimeLimit
    ) async throws(SanguineError) -> Balance {
        let (call, retries) = (backend.call, backend.retries)
        let host = call.server?.hostKey ?? ""
        let schedule = configuration.schedule(.standard)
        let keys = inquiry.keys.joined(separator: ",")
        var failures = 0
        var last: SanguineError?
        retries.requested(host)
        while true {
            do throws(SanguineError) {
                return try await call.get(
                    "/v1/balance",
                    query: keys.isEmpty ? [] : [URLQueryItem(name: "operations", value: keys)],
                    within: limit,
                    as: Balance.self
                )
                .value
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
            guarded.settling = Task { [weak self] in
                let error = await refresh()
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
    /// Shows a call's hold, at once.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `overloaded` if too many calls are pending, and
    ///   ``SanguineError/userChanged`` if the user is gone.
    func began(
        _ key: String,
        of function: String,
        expectedCost: Int64
    ) throws(SanguineError) {
        let now = configuration.clock.now()
        let refusal = change { guarded -> SanguineError? in
            if let ending = guarded.ending { return ending }
            let isTaken = guarded.state.began(
                key,
                function: function,
                expectedCost: expectedCost,
                at: now
            )
            return isTaken ? nil : .problem(Self.tooManyCalls)
        }
        if let refusal { throw refusal }
    }

    /// Takes in how a call ended, stores it, and fetches if nothing else brings a balance.
    func ended(_ event: (inout BalanceState) -> Void) {
        change { guarded in
            if guarded.ending == nil { event(&guarded.state) }
        }
        persist()
        settle()
    }

    private static let tooManyCalls = Problem(
        .overloaded,
        """
        \(BalanceLimits.pendingCalls) calls wait for their answers. Wait for some of them before \
        you make more.
        """
    )
}
