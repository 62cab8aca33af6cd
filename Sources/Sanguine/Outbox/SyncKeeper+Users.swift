import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Users

extension SyncKeeper {
    /// Begins an epoch: the records of the user before are removed from memory and disk; what they
    /// did and was not sent stays on disk for their return.
    ///
    /// When this returns, nothing of before can be seen, or is sent. An epoch that is there already
    /// removes nothing: its account has become known, or its token was refreshed.
    func adopt(_ epoch: SessionEpoch) {
        var hasMore = false
        var mustPull = false
        let begun = guarded.withLock { guarded -> Ended? in
            guard epoch.number >= guarded.epoch.number, !guarded.isClosed else { return nil }
            if epoch.number == guarded.epoch.number {
                let wasNobody = guarded.epoch.account == nil
                hasMore = goOn(as: epoch, &guarded)
                // A pull that is under way waits for the account, and goes on by itself.
                mustPull = wasNobody && guarded.epoch.account != nil && guarded.puller == nil
                return nil
            }
            return begin(epoch, &guarded)
        }
        defer { wake() }
        if mustPull { pull() }
        if hasMore {
            observers.changed(nil, in: self)
            tellOutbox()
        }
        guard let begun else { return }
        unreadable.clear()
        for task in begun.tasks { task?.cancel() }
        for outcome in begun.outcomes { outcome.resolve(.failure(.userChanged)) }
        for receipt in begun.receipts { receipt.resolve(.failure(.userChanged)) }
        forgetOthers()
        observers.changed(nil, in: self)
        if begun.wasActive { activate(anew: true) }
        tellOutbox()
    }

    /// What an epoch's end leaves to be told.
    private struct Ended {
        var tasks: [Task<Void, Never>?] = []
        var outcomes: [OneShot<Void>] = []
        var receipts: [OneShot<Receipt.Outcome>] = []
        var wasActive = false
    }

    /// The user is the same: their account has become known, or somebody has signed in again.
    ///
    /// Before the account was known there was no base, so none is carried into it.
    ///
    /// - Returns: Whether operations of theirs were found that an earlier stay has left.
    private func goOn(as epoch: SessionEpoch, _ guarded: inout Guarded) -> Bool {
        guarded.state.set(.signIn, false)
        guard guarded.epoch.account == nil, epoch.account != nil else { return false }
        guarded.epoch = epoch
        guarded.owner = epoch.owner
        guard guarded.isOpen || outbox.isThere else { return false }
        do {
            try outbox.takeOver(by: epoch.owner)
            try outbox.setPresentOwner(epoch.owner)
            guard guarded.isOpen else { return false }
            var hasMore = false
            for row in try outbox.rows(of: epoch.owner)
            where guarded.rows[row.sequence] == nil && !guarded.state.outbox.isFull {
                _ = try take(row, in: &guarded)
                hasMore = true
            }
            return hasMore
        } catch {
            // They stay nobody's on disk, and are taken over at the next launch.
            environment.logger.error(
                "The outbox could not be given to the new account.",
                metadata: ["reason": "\(error)"]
            )
            return false
        }
    }

    private func begin(_ epoch: SessionEpoch, _ guarded: inout Guarded) -> Ended {
        let former = guarded.owner
        let ended = Ended(
            tasks: [
                guarded.sender?.task, guarded.puller?.task, guarded.waking, guarded.polling,
            ],
            outcomes: [guarded.sender?.outcome, guarded.puller?.outcome].compactMap { $0 },
            receipts: Array(guarded.receipts.values),
            wasActive: guarded.isActive
        )
        guarded.epoch = epoch
        guarded.owner = epoch.owner
        guarded.state = Self.freshState(environment, position: 0)
        guarded.base = .empty
        // Whoever reads before the file is emptied finds nothing of theirs.
        guarded.records?.cache.clear()
        guarded.rows = [:]
        guarded.receipts = [:]
        (guarded.sender, guarded.puller) = (nil, nil)
        (guarded.waking, guarded.polling) = (nil, nil)
        guarded.mustPullAgain = false
        guarded.isOpen = false
        guarded.restored = 1
        restoreFollowers.tell(1)
        guarded.revision += 1
        guard guarded.records != nil || outbox.isThere else { return ended }
        do {
            // Somebody has signed in whose account was not made for what nobody did.
            if epoch.account != nil { try outbox.strand() }
            try handOn(from: former, to: epoch.owner)
        } catch {
            environment.report("The outbox could not be handed on. (\(error))")
        }
        return ended
    }

    /// Removes the records of everyone but the one who is there by now: somebody may have signed in
    /// since the change that this follows, and have records already.
    private func forgetOthers() {
        do {
            try serial.withLock { _ in
                let (records, owner) = guarded.withLock { ($0.records, $0.owner) }
                try records?.forget(except: owner)
            }
        } catch {
            // Nobody reads them, and the next launch begins with their removal.
            environment.report("Records of a signed-out user are still on disk, unread. (\(error))")
        }
    }
}

// MARK: - Life

extension SyncKeeper {
    /// Opens what is needed, follows the app and the network, and asks for what is new: somebody
    /// uses records.
    func activate(anew: Bool = false) {
        let isNew = guarded.withLock { guarded in
            guard !guarded.isClosed, anew || !guarded.isActive else { return false }
            guarded.isActive = true
            do throws(SanguineError) {
                try open(&guarded)
            } catch {
                environment.report("\(error)")
            }
            guard let network, guarded.followings.isEmpty else { return true }
            guarded.followings = [
                network.lifecycle.isForeground.follow { [weak self] in self?.lifecycleChanged() },
                network.connectivity.isOnline.follow { [weak self] in self?.networkChanged() },
            ]
            return true
        }
        guard isNew else { return }
        // What has changed since the keeper was created.
        readSignals()
        kick()
        pull()
        followLive()
    }

    /// Sends what waits, and pulls to the head.
    func synchronize() async throws(SanguineError) {
        guard network != nil else { throw .notConfigured("'server'") }
        activate()
        let last = try guarded.withLock { guarded throws(SanguineError) in
            try open(&guarded)
            _ = notice(&guarded)
            return guarded.state.outbox.items.keys.last ?? 0
        }
        while true {
            // Whoever insists is not kept by what the system thinks of the network.
            guarded.withLock { $0.state.set(.offline, false) }
            wake()
            if let sending = kick() { try await sending.value() }
            if let pulling = pull() { try await pulling.value() }
            let (isDone, mustSignIn) = try guarded.withLock { guarded throws(SanguineError) in
                guard !guarded.isClosed else { throw .closed }
                let waits = guarded.state.outbox.items.values.contains {
                    $0.sequence <= last && $0.isUnanswered
                }
                return (!waits, guarded.state.outbox.pauses.contains(.signIn))
            }
            if isDone { return }
            if mustSignIn {
                throw .problem(Problem(.unauthenticated, "Sign in, then synchronize again."))
            }
            if Task.isCancelled { throw .cancelled }
        }
    }

    /// Takes in, and returns, what the app and the network say now.
    @discardableResult
    private func readSignals() -> (isForeground: Bool, isOnline: Bool) {
        // Read under the lock, so that the last one to read is the last one to write.
        guarded.withLock { guarded in
            guarded.isForeground = network?.lifecycle.isForeground.value ?? true
            guarded.isOnline = network?.connectivity.isOnline.value ?? true
            guarded.state.set(.offline, !guarded.isOnline)
            return (guarded.isForeground, guarded.isOnline)
        }
    }

    private func lifecycleChanged() {
        guard readSignals().isForeground else { return outbox.tidyUp() }
        look()
        wake()
        pull()
    }

    private func networkChanged() {
        guard readSignals().isOnline else { return }
        wake()
        pull()
    }

    /// Looks for what another process wrote.
    func look() {
        guard guarded.withLock({ notice(&$0) }) else { return }
        observers.changed(nil, in: self)
        tellOutbox()
        kick()
    }

    /// Looks every now and then, for as long as somebody observes.
    func watch() {
        guarded.withLock { guarded in
            guard guarded.watching == nil, environment.folder != nil, !guarded.isClosed else {
                return
            }
            let delay = environment.delay
            guarded.watching = Task { [weak self] in
                while (try? await delay.sleep(for: RecordLimits.companionInterval)) != nil {
                    guard let self, goesOnWatching() else { return }
                    look()
                }
            }
        }
    }

    private func goesOnWatching() -> Bool {
        guarded.withLock { guarded in
            if observers.isEmpty { guarded.watching = nil }
            return guarded.watching != nil && !guarded.isClosed
        }
    }
}
