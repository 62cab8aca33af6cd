import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Life

extension SyncKeeper {
    /// Opens what is needed, follows the app and the network, and asks for what is new: somebody
    /// uses records.
    func activate() {
        let isNew = guarded.withLock { guarded in
            guard guarded.ending == nil, !guarded.isActive else { return false }
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

    /// There is a token, for the first time or again, and operations of an earlier stay may have
    /// come.
    func signedIn(isFirst: Bool) {
        let (hasMore, mustPull) = guarded.withLock { guarded in
            guarded.state.set(.signIn, false)
            guard isFirst, guarded.isOpen else { return (false, false) }
            // A pull that is under way waits for the account, and goes on by itself.
            return (takeMore(&guarded), guarded.puller == nil)
        }
        if mustPull { pull() }
        if hasMore {
            observers.changed(nil)
            tellOutbox()
        }
        wake()
    }

    private func takeMore(_ guarded: inout Guarded) -> Bool {
        do {
            var hasMore = false
            for row in try outbox.rows(.mutator)
            where guarded.rows[row.sequence] == nil && !guarded.state.outbox.isFull {
                _ = try take(row, in: &guarded)
                hasMore = true
            }
            return hasMore
        } catch {
            failed(error, &guarded)
            return false
        }
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
                if let ending = guarded.ending { throw ending }
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
        guard readSignals().isForeground else {
            guarded.withLock { guarded in
                guarded.polling?.cancel()
                guarded.polling = nil
            }
            return outbox.tidyUp()
        }
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
        observers.changed(nil)
        tellOutbox()
        kick()
    }

    /// Looks every now and then, for as long as somebody observes.
    func watch() {
        guarded.withLock { guarded in
            guard guarded.watching == nil, environment.folder != nil, guarded.ending == nil else {
                return
            }
            let delay = environment.delay
            guarded.watching = Task { [weak self] in
                while (try? await delay.sleep(for: RecordLimits.companionInterval)) != nil {
                    guard let self, goesOnWatching() else { return }
                    if environment.isMoved() { return }
                    look()
                }
            }
        }
    }

    private func goesOnWatching() -> Bool {
        guarded.withLock { guarded in
            if observers.isEmpty { guarded.watching = nil }
            return guarded.watching != nil && guarded.ending == nil
        }
    }
}
