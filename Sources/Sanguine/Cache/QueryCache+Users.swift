import SanguineModel
import Synchronization

// MARK: - Users

extension QueryCache {
    /// Replaces the current user's cache scope, and ends everything in progress for the previous
    /// user.
    ///
    /// When this returns, the previous user's data is no longer visible. Observers continue with
    /// the new user.
    ///
    /// - Parameters:
    ///   - user: The new user's cache scope.
    ///   - device: The device's new cache scope; the data of the old one is no longer visible
    ///     either. Default: the device's cache scope stays.
    /// - Returns: Work that the caller must do with no lock held.
    func switchUser(to user: CacheScope, device: CacheScope? = nil) -> @Sendable () -> Void {
        entries.begin(user)
        if let device { entries.begin(device) }
        // Part sources first: observed entries are fetched through them.
        let parts = [lists, ranges].map { $0.switchUser(to: user, device: device) }
        let endings = entries.guarded.withLock { guarded -> [Entries.Ending] in
            guard !guarded.isClosed else { return [] }
            let (former, formerDevice) = (guarded.user, guarded.device)
            guarded.user = user
            if former !== formerDevice { former.writer.end() }
            if let device {
                guarded.device = device
                for entry in guarded.table.all { Entries.sync(entry, with: guarded.marks) }
                guarded.marks.forget()
            }
            // Operations belong to the user, even if the values they change do not.
            guarded.effects = EffectTable()
            guarded.unremoved = []
            return guarded.table.all.compactMap { entry in
                if entry.cacheScope === former { return wipe(entry, for: user, in: &guarded) }
                if let device { return wipe(entry, for: device, in: &guarded) }
                guard entry.base != nil else { return nil }
                entry.dropEffects(number: guarded.nextNumber())
                return entries.perform(
                    .nothing,
                    on: entry,
                    in: &guarded,
                    answer: .failure(.cancelled)
                )
            }
        }
        entries.device.writer.anonymize()
        return { [self] in
            for part in parts { part() }
            for ending in endings { ending.perform() }
            for source in user.sources.values { entries.sourceChanged(source.query) }
            entries.deliver()
        }
    }

    // Called under the lock.
    private func wipe(
        _ entry: Entry,
        for cacheScope: CacheScope,
        in guarded: inout Entries.Guarded
    ) -> Entries.Ending {
        let next = guarded.user.hasUser ? guarded.nextNumber() : nil
        entry.move(to: cacheScope)
        guarded.table.measure(entry, 0)
        let actions = entry.state.reset(nextFetch: next)
        return entries.perform(actions, on: entry, in: &guarded, answer: .failure(.userChanged))
    }

    /// Allows a fetch to sign the current user in: the app asks for a value.
    func allowSignIn() { entries.guarded.withLock { $0.user }.allowSignIn() }

    /// Fetches observed entries without a value, once the user has been identified.
    func userIsKnown() {
        entries.changeSeveral { guarded in
            guarded.table.observed.compactMap { key in
                guard let entry = guarded.table[key], entry.state.held == nil else { return nil }
                let actions = entry.state.refetch(nextFetch: guarded.nextNumber())
                return entries.perform(
                    actions,
                    on: entry,
                    in: &guarded,
                    answer: .failure(.cancelled)
                )
            }
        }
    }

    /// Ends everything in progress and writes pending values.
    func close() {
        lists.close()
        ranges.close()
        let (endings, writers) = entries.guarded.withLock {
            guarded -> ([(Entries.Ending, Delivery)], [EntryWriter]) in
            guard !guarded.isClosed else { return ([], []) }
            guarded.isClosed = true
            let endings = guarded.table.all.map { entry in
                let finish = entry.removeObservers()
                let actions = entry.state.close()
                let ending = entries.perform(
                    actions,
                    on: entry,
                    in: &guarded,
                    answer: .failure(.closed)
                )
                return (ending, finish)
            }
            return (endings, guarded.writers)
        }
        for (ending, finish) in endings {
            ending.perform()
            finish()
        }
        entries.deliver()
        for writer in writers { writer.close() }
    }
}
