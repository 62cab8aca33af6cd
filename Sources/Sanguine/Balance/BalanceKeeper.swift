import Foundation
import Logging
import SanguineModel
import Synchronization

/// Keeps the balance that the user sees: answers at once, tells of changes, stores and fetches.
///
/// ``BalanceState`` decides; this performs. Whatever concerns a user of an earlier epoch is
/// ignored.
///
/// Invariants:
///
/// 1. Observers are told the newest state, in order, and never one equal to the last.
/// 2. What is stored is never older than what was stored before it.
/// 3. At most one fetch is under way, and none without a waiter, an observer or a call that waits
///    for it.
/// 4. While calls wait for a balance and the client is open, a fetch is under way or one is
///    scheduled: a hold that nobody answers does not stay on the screen.
///
/// Mutable state: `guarded`, by its mutex, never held over I/O; observers' streams are yielded to
/// under it, so that they see changes in their order (yielding only schedules). And the stored
/// state, by `stored`, which is held over the write: those who wait for it find their own change
/// written too, and go on without a write of their own.
final class BalanceKeeper: DerivedQuery {
    static let stateName = "balance"

    /// A fetch that is under way, for all who want it.
    struct Fetch {
        let outcome: OneShot<Void>
        let task: Task<Void, Never>
        /// How many callers wait for it.
        var waiters = 0

        /// Stops the work, and tells those who wait.
        func end(with error: SanguineError) {
            task.cancel()
            outcome.resolve(.failure(error))
        }
    }

    struct Guarded {
        var state: BalanceState
        /// The present epoch's number.
        var epoch: UInt64
        /// What observers were told last, and what `cached` answers.
        var shown = QueryState<Balance>()
        var observers: [Int: AsyncStream<QueryState<Balance>>.Continuation] = [:]
        var nextObserver = 0
        var fetch: Fetch?
        var error: SanguineError?
        var isInvalidated = false
        /// Whether the fetch under way may be from before an invalidation.
        var isFetchOutdated = false
        /// Whether a call ended while a fetch was under way, so that it may not be in it.
        var needsAnotherFetch = false
        /// Waits to fetch again for calls that the last fetch did not settle.
        var settling: Task<Void, Never>?
        /// How many fetches in a row have left calls unsettled.
        var vainFetches = 0
        var isClosed = false
        /// Counts changes; says what is stored.
        var revision: UInt64 = 0
    }

    /// Is told who observes, and how often it is to be fetched then.
    typealias ObservationHook = @Sendable (_ isObserved: Bool, _ polling: Duration?) -> Void

    let guarded: Mutex<Guarded>
    /// Set once, when the client is put together.
    let observationHook = Mutex<ObservationHook?>(nil)
    private let stored = Mutex<UInt64>(0)
    private let store: ClientStore
    let call: ServerCall
    let configuration: SanguineClient.Configuration
    let retries: RetryGuard

    /// Restores what an earlier process left for the user of this epoch.
    init(
        configuration: SanguineClient.Configuration,
        call: ServerCall,
        store: ClientStore,
        retries: RetryGuard,
        epoch: SessionEpoch
    ) {
        self.configuration = configuration
        self.retries = retries
        self.call = call
        self.store = store
        var state = BalanceState()
        if let data = try? store.state(Self.stateName), let archive = BalanceArchive(data) {
            state = BalanceState(restoring: archive)
        }
        if let account = epoch.account {
            state.signedIn(account)
        } else if state.account != nil {
            state.reset()  // A kill in the middle of a sign-out left it.
        }
        var guarded = Guarded(state: state, epoch: epoch.number, revision: 1)
        guarded.shown = guarded.present
        self.guarded = Mutex(guarded)
    }

    /// The last balances that the server gave, the newest last.
    var history: [RecordedBalance] { guarded.withLock { $0.state.history } }

    /// Our calls that the base does not contain, for tests and diagnosis.
    var pendingCalls: [PendingCharge] { guarded.withLock { $0.state.calls } }

    /// How many callers wait for the fetch that is under way.
    var waiting: Int { guarded.withLock { $0.fetch?.outcome.waiting ?? 0 } }

    /// Takes over an epoch: another's balance and calls are forgotten, also on disk.
    func adopt(_ epoch: SessionEpoch) {
        let overtaken = change { guarded -> Fetch? in
            guard epoch.number >= guarded.epoch else { return nil }
            var overtaken: Fetch?
            if epoch.number > guarded.epoch {
                guarded.epoch = epoch.number
                guarded.state.reset()
                guarded.error = nil
                overtaken = guarded.fetch
                guarded.fetch = nil
                guarded.isFetchOutdated = false
                guarded.stopSettling()
            }
            if let account = epoch.account { guarded.state.signedIn(account) }
            return overtaken
        }
        persist()
        overtaken?.end(with: .userChanged)
    }

    /// Ends all waiting with ``SanguineError/closed``, and all streams.
    func close() {
        let (fetch, observers) = guarded.withLock { guarded in
            guarded.isClosed = true
            guarded.stopSettling()
            defer { (guarded.fetch, guarded.observers) = (nil, [:]) }
            return (guarded.fetch, guarded.observers.values)
        }
        fetch?.end(with: .closed)
        for observer in observers { observer.finish() }
    }

    /// Writes what has changed since the last write.
    ///
    /// Durable when it returns.
    func persist() {
        stored.withLock { stored in
            let (revision, archive, epoch) = guarded.withLock {
                ($0.revision, BalanceArchive($0.state), $0.epoch)
            }
            guard revision > stored else { return }
            do {
                // Of a user who has signed out meanwhile nothing is written.
                try store.setState(Self.stateName, try archive.encoded(), epoch: epoch)
                stored = revision
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
    func change<Outcome>(_ body: (inout Guarded) -> Outcome) -> Outcome {
        guarded.withLock { guarded in
            defer {
                guarded.revision += 1
                let present = guarded.present
                if present != guarded.shown {
                    guarded.shown = present
                    for observer in guarded.observers.values { observer.yield(present) }
                }
            }
            return body(&guarded)
        }
    }
}

extension BalanceKeeper.Guarded {
    /// Ends the waiting for another fetch, and its growing delay.
    mutating func stopSettling() {
        settling?.cancel()
        settling = nil
        vainFetches = 0
    }

    /// What there is to show.
    fileprivate var present: QueryState<Balance> {
        QueryState(
            value: state.visible,
            asOf: state.base?.receivedAt,
            isFetching: fetch != nil,
            error: error
        )
    }
}

// MARK: - Calls

extension BalanceKeeper {
    /// Shows a call's hold, at once.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `overloaded` if too many calls are pending, and
    ///   ``SanguineError/userChanged`` if the epoch is over.
    func began(
        _ key: String,
        of function: String,
        expectedCost: Int64,
        epoch: SessionEpoch
    ) throws(SanguineError) {
        let now = configuration.clock.now()
        let refusal = change { guarded -> SanguineError? in
            guard !guarded.isClosed else { return .closed }
            guard guarded.epoch == epoch.number else { return .userChanged }
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
    func ended(_ epoch: SessionEpoch, _ event: (inout BalanceState) -> Void) {
        let wantsFetch = change { guarded -> Bool in
            guard guarded.epoch == epoch.number else { return false }
            event(&guarded.state)
            let wantsFetch = guarded.state.wantsFetch && !guarded.isClosed
            guarded.needsAnotherFetch = wantsFetch && guarded.fetch != nil
            return wantsFetch
        }
        persist()
        if wantsFetch { fetch() }
    }

    private static let tooManyCalls = Problem(
        .overloaded,
        """
        \(BalanceLimits.pendingCalls) calls wait for their answers. Wait for some of them before \
        you make more.
        """
    )
}
