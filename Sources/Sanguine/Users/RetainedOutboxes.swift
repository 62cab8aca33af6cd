import Logging
import SanguineModel
import Synchronization

/// The outboxes of users who have signed out: each is kept until its owner returns or its time is
/// over.
///
/// Invariant: an outbox with an owner is taken over by this owner only.
///
/// Mutable state: `left`, protected by its mutex; no call is made while it is held.
/// ``UserSwitcher`` calls this type in the order of the user changes.
final class RetainedOutboxes: Sendable {
    /// The outbox of a user who has left.
    private struct Left {
        let outbox: OutboxFile
        let folder: UserFolders.Folder?
        /// The user it belongs to; `nil` if that is unknown.
        let owner: AccountKey?
    }

    private let left = Mutex<[Left]>([])
    private let services: ClientServices

    init(_ services: ClientServices) { self.services = services }

    private var fault: PlantedFault? { services.configuration.plantedFault }
    private var now: Timestamp { services.configuration.clock.now() }

    // MARK: - Leaving

    /// Writes the owner of the operations into the outbox.
    func writeOwner(_ owner: AccountKey?, of user: UserScope) {
        guard let owner, user.outbox.file.isUsed else { return }
        do {
            try user.outbox.file.setOwner(owner)
        } catch {
            services.log.failure("\(error)", "The outbox of a user who is signing out failed.")
        }
    }

    /// Keeps the outbox of a user who signs out.
    ///
    /// - Returns: Whether operations wait in it, or may wait.
    func add(_ user: UserScope, _ owner: AccountKey?, _ keeping: SanguineClient.Keeping) -> Bool {
        let outbox = user.outbox.file
        guard outbox.isUsed else { return false }
        var waits = keeping.duration > .zero
        do {
            waits = try outbox.retain(for: keeping.duration, at: now)
        } catch {
            services.log.failure("\(error)", "The outbox of a former user failed.")
        }
        if waits {
            wipe(outbox)
            let former = Left(outbox: outbox, folder: user.folder, owner: owner)
            left.withLock { $0.append(former) }
        }
        return waits
    }

    /// Removes the files of a user who has left.
    func remove(_ user: UserScope, keepingOutbox: Bool) {
        if !keepingOutbox { user.outbox.file.close() }
        guard let folder = user.folder, fault != .keepsFolder else { return }
        remove(folder, keepingOutbox: keepingOutbox)
        services.log.removed(folder.url)
    }

    private func remove(_ folder: UserFolders.Folder, keepingOutbox: Bool = false) {
        do {
            try folder.folders.remove(folder, keepingOutbox: keepingOutbox)
        } catch {
            services.log.failure(
                "\(error)",
                "Files of a former user could not be removed. The removal is tried again."
            )
        }
    }

    /// Completes a change of users that was interrupted by the end of the process, and removes
    /// outdated outboxes.
    func sweep() {
        for folder in services.folders?.left ?? [] {
            let outbox = OutboxFile(folder)
            do {
                guard outbox.isThere, try outbox.keep(at: now) else {
                    outbox.close()
                    remove(folder)
                    continue
                }
                wipe(outbox)  // The process may have ended before this.
                remove(folder, keepingOutbox: true)
                let owner = try outbox.owner()
                left.withLock { $0.append(Left(outbox: outbox, folder: folder, owner: owner)) }
            } catch {
                services.log.failure("\(error)", "The outbox of a former user failed.")
                outbox.close()
                remove(folder, keepingOutbox: true)
            }
        }
    }

    /// Overwrites deleted operations in an outbox that is kept.
    ///
    /// They are deleted whether or not this succeeds, so a failure is only logged.
    private func wipe(_ outbox: OutboxFile) {
        do {
            try outbox.rewrite()
        } catch {
            services.log.failure(
                "\(error)",
                "Traces of sent operations could not be erased. The erasure is tried again."
            )
        }
    }

    /// Removes outboxes whose time is over.
    private func removeOutdated() {
        for former in left.withLock({ $0 }) {
            do {
                if try !former.outbox.keep(at: now) { delete(former) }
            } catch {
                // The next user change or launch tries again.
                services.log.failure("\(error)", "The outbox of a former user failed.")
            }
        }
    }

    /// Empties every outbox, the given user's too; the files are still to be removed.
    func erase(with user: UserScope) {
        let outboxes = left.withLock { left in
            defer { left = [] }
            return left.map(\.outbox)
        }
        for outbox in outboxes + [user.outbox.file] {
            // An outbox that cannot be emptied is removed with its file, now or at the next launch.
            if outbox.isUsed { _ = try? outbox.retain(for: .zero, at: now) }
            outbox.close()
        }
    }

    /// Closes all outboxes.
    func close() { for former in left.withLock({ $0 }) { former.outbox.close() } }

    // MARK: - Returning

    /// Moves a user's own outboxes to them, and those without an owner to a guest.
    func takeOver(for user: UserScope) {
        removeOutdated()
        let owner = user.owner
        let hasGuests = services.configuration.server != nil && owner == nil
        do {
            try move(to: user) { former in
                former.owner.map { $0 == owner || fault == .takesOverAnybodys } ?? hasGuests
            }
        } catch {
            services.log.failure(
                "\(error)",
                "The user's earlier operations could not be taken over."
            )
        }
    }

    /// The accounts other than the user's that have left operations: former guests, or others.
    func accounts(besides user: UserScope) -> Set<Identifier> {
        Set(left.withLock { $0 }.compactMap { $0.owner?.account }).subtracting(
            [user.authorizer.account].compactMap(\.self)
        )
    }

    /// Moves the operations of guests to the user, after the server has confirmed that the guests
    /// are parts of the user's account.
    ///
    /// - Returns: Whether there were any.
    func takeOver(for user: UserScope, ofGuests guests: Set<Identifier>) -> Bool {
        removeOutdated()
        let owners = Set(guests.map { AccountKey($0) })
        let count = count()
        do {
            try move(to: user) { former in former.owner.map(owners.contains) ?? false }
        } catch {
            services.log.failure(
                "\(error)",
                "The operations of a merged guest could not be taken over."
            )
        }
        return self.count() != count
    }

    private func move(
        to user: UserScope,
        _ kind: OutboxFile.Kind? = nil,
        where isMeant: (Left) -> Bool
    ) throws {
        for former in left.withLock({ $0 })
        where former.outbox !== user.outbox.file && isMeant(former) {
            try user.outbox.file.takeOver(former.outbox, kind)
            // The operations are the user's now, so nothing throws after this.
            deleteTakenOver(former, kind)
        }
    }

    /// Deletes operations that another outbox has taken over.
    ///
    /// They are deleted in the database too: if the file could not be removed, they would be sent
    /// again after the next launch.
    private func deleteTakenOver(_ former: Left, _ kind: OutboxFile.Kind?) {
        do {
            try former.outbox.remove(kind)
            if kind != nil, try former.outbox.keep(at: now) { return wipe(former.outbox) }
        } catch {
            services.log.failure("\(error)", "The outbox of a former user failed.")
            // The operations have moved. The rest of the file waits for the next launch.
            if kind != nil { return detach(former) }
        }
        delete(former)
    }

    private func detach(_ former: Left) {
        left.withLock { $0.removeAll { $0.outbox === former.outbox } }
        former.outbox.close()
    }

    private func delete(_ former: Left) {
        detach(former)
        if let folder = former.folder { remove(folder) }
    }

    // MARK: - Counting

    /// The number of operations of signed-out users that are kept until those users return.
    func count() -> Int {
        // Outboxes that cannot be read count as empty.
        left.withLock { $0 }.reduce(0) { $0 + ((try? $1.outbox.count()) ?? 0) }
    }

    /// The number of operations on the app's own backend that have no known user.
    func countUnclaimed() -> Int {
        unclaimed.reduce(0) { $0 + ((try? $1.outbox.rows(.remote).count) ?? 0) }
    }

    private var unclaimed: [Left] { left.withLock { $0.filter { $0.owner == nil } } }

    /// Assigns these operations to a user.
    func assignUnclaimed(to user: UserScope) throws(SanguineError) {
        do {
            try move(to: user, .remote) { $0.owner == nil }
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
    }

    /// Deletes these operations.
    func discardUnclaimed() throws(SanguineError) {
        do {
            for former in unclaimed {
                try former.outbox.remove(.remote)
                if try former.outbox.keep(at: now) { wipe(former.outbox) } else { delete(former) }
            }
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
    }
}
