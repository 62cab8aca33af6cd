import Logging
import SanguineModel
import Synchronization

/// What users who have left wait to send: an outbox each, until its owner is back, or its time is
/// over.
///
/// Invariant: an outbox with an owner goes to this owner, and to nobody else.
///
/// Mutable state: `left`, by its mutex, held over nothing. ``Users`` calls it in the order of the
/// changes.
final class FormerUsers: Sendable {
    /// The outbox of a user who has left.
    private struct Left {
        let outbox: OutboxFile
        let place: UserFolders.Place?
        /// Whose it is; `nil` if nobody can say.
        let owner: Owner?
    }

    private let left = Mutex<[Left]>([])
    private let device: Device

    init(_ device: Device) { self.device = device }

    private var fault: PlantedFault? { device.configuration.plantedFault }
    private var now: Timestamp { device.configuration.clock.now() }

    // MARK: - Leaving

    /// Writes down whose the operations are.
    func note(_ owner: Owner?, of user: UserScope) {
        guard let owner, user.outbox.file.isUsed else { return }
        do {
            try user.outbox.file.setOwner(owner)
        } catch {
            device.log.failure("\(error)", "The outbox of a user who leaves failed.")
        }
    }

    /// Leaves of a user what waits for their return.
    ///
    /// - Returns: Whether something waits, or may wait.
    func add(_ user: UserScope, _ owner: Owner?, _ keeping: SanguineClient.Keeping) -> Bool {
        let outbox = user.outbox.file
        guard outbox.isUsed else { return false }
        var waits = keeping.duration > .zero
        do {
            waits = try outbox.leave(for: keeping.duration, at: now)
        } catch {
            device.log.failure("\(error)", "The outbox of a user who has left failed.")
        }
        if waits {
            wipe(outbox)
            let former = Left(outbox: outbox, place: user.place, owner: owner)
            left.withLock { $0.append(former) }
        }
        return waits
    }

    /// Removes the files of a user who has left.
    func remove(_ user: UserScope, keepingOutbox: Bool) {
        if !keepingOutbox { user.outbox.file.close() }
        guard let place = user.place, fault != .keepsFolder else { return }
        remove(place, keepingOutbox: keepingOutbox)
        device.log.removed(place.url)
    }

    private func remove(_ place: UserFolders.Place, keepingOutbox: Bool = false) {
        do {
            try place.folders.remove(place, keepingOutbox: keepingOutbox)
        } catch {
            device.log.failure(
                "\(error)",
                "Files of a user who has left are still on disk, unread. It is tried again."
            )
        }
    }

    /// Finishes what a death in the middle of a change has left, and removes what is outdated.
    func sweep() {
        for place in device.folders?.left ?? [] {
            let outbox = OutboxFile(place)
            do {
                guard outbox.isThere, try outbox.keep(at: now) else {
                    outbox.close()
                    remove(place)
                    continue
                }
                wipe(outbox)  // A death may have come between.
                remove(place, keepingOutbox: true)
                let owner = try outbox.owner()
                left.withLock { $0.append(Left(outbox: outbox, place: place, owner: owner)) }
            } catch {
                device.log.failure("\(error)", "The outbox of a user who has left failed.")
                outbox.close()
                remove(place, keepingOutbox: true)
            }
        }
    }

    /// Removes the traces of what is over from an outbox that stays.
    ///
    /// What is over is gone whether or not this succeeds, so it fails nothing.
    private func wipe(_ outbox: OutboxFile) {
        do {
            try outbox.rewrite()
        } catch {
            device.log.failure(
                "\(error)",
                "Traces of sent operations are still on disk, unread. It is tried again."
            )
        }
    }

    /// Removes what was kept for as long as the sign-out said.
    private func removeOutdated() {
        for former in left.withLock({ $0 }) {
            do {
                if try !former.outbox.keep(at: now) { drop(former) }
            } catch {
                // It is tried again at the next change, or the next launch.
                device.log.failure("\(error)", "The outbox of a user who has left failed.")
            }
        }
    }

    /// Leaves nothing of anybody, the user among them; their files are still to be removed.
    func erase(with user: UserScope) {
        let outboxes = left.withLock { left in
            defer { left = [] }
            return left.map(\.outbox)
        }
        for outbox in outboxes + [user.outbox.file] {
            // What cannot be emptied is removed with its file, or is at the next launch.
            if outbox.isUsed { _ = try? outbox.leave(for: .zero, at: now) }
            outbox.close()
        }
    }

    /// Ends all access.
    func close() { for former in left.withLock({ $0 }) { former.outbox.close() } }

    // MARK: - Returning

    /// Gives a user what they have left themselves, and a guest what nobody else can have.
    func takeOver(for user: UserScope) {
        removeOutdated()
        let owner = user.owner
        let hasGuests = device.configuration.server != nil && owner == nil
        do {
            try move(to: user) { former in
                former.owner.map { $0 == owner || fault == .takesOverAnybodys } ?? hasGuests
            }
        } catch {
            device.log.failure("\(error)", "Operations of an earlier stay could not be taken over.")
        }
    }

    private func move(
        to user: UserScope,
        _ kind: OutboxFile.Kind? = nil,
        where isMeant: (Left) -> Bool
    ) throws {
        for former in left.withLock({ $0 })
        where former.outbox !== user.outbox.file && isMeant(former) {
            try user.outbox.file.takeOver(former.outbox, kind)
            // They are the user's now, so nothing throws from here on.
            given(former, kind)
        }
    }

    /// Removes operations that another outbox has taken over.
    ///
    /// In the file, too, and not only with it: what stayed there, because the file cannot be
    /// removed, say, would be sent again after the next launch.
    private func given(_ former: Left, _ kind: OutboxFile.Kind?) {
        do {
            try former.outbox.remove(kind)
            if kind != nil, try former.outbox.keep(at: now) { return wipe(former.outbox) }
        } catch {
            device.log.failure("\(error)", "The outbox of a user who has left failed.")
            // Given once; what else is in it waits for the next launch.
            if kind != nil { return detach(former) }
        }
        drop(former)
    }

    private func detach(_ former: Left) {
        left.withLock { $0.removeAll { $0.outbox === former.outbox } }
        former.outbox.close()
    }

    private func drop(_ former: Left) {
        detach(former)
        if let place = former.place { remove(place) }
    }

    // MARK: - Counting

    /// How many operations of users who have left wait for their return.
    func count() -> Int {
        // Not to be read is not to be counted.
        left.withLock { $0 }.reduce(0) { $0 + ((try? $1.outbox.count()) ?? 0) }
    }

    /// How many operations on the app's own backend nobody can name the user of.
    func countUnclaimed() -> Int {
        unclaimed.reduce(0) { $0 + ((try? $1.outbox.rows(.mutation).count) ?? 0) }
    }

    private var unclaimed: [Left] { left.withLock { $0.filter { $0.owner == nil } } }

    /// Gives a user those.
    func giveUnclaimed(to user: UserScope) throws(SanguineError) {
        do {
            try move(to: user, .mutation) { $0.owner == nil }
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
    }

    /// Removes those.
    func discardUnclaimed() throws(SanguineError) {
        do {
            for former in unclaimed {
                try former.outbox.remove(.mutation)
                if try former.outbox.keep(at: now) { wipe(former.outbox) } else { drop(former) }
            }
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
    }
}
