import SanguineModel
import Synchronization

// MARK: - Users

extension QueryCache {
    /// Puts another user's partition in the place of the present one, and ends what is under way
    /// for that.
    ///
    /// When this returns, nothing of before can be seen. Who observes goes on with the new user.
    ///
    /// - Returns: What is to be done under no lock.
    func change(to user: Partition) -> @Sendable () -> Void {
        entries.begin(user)
        // What comes in parts first: what is observed is fetched through it.
        let parts = [lists.change(to: user), stretches.change(to: user)]
        let endings = entries.guarded.withLock { guarded -> [Entries.Ending] in
            guard !guarded.isClosed else { return [] }
            let former = guarded.user
            guarded.user = user
            if former !== guarded.device { former.writer.end() }
            // Operations are the user's, whosoever the values are.
            guarded.effects = EffectTable()
            guarded.unremoved = []
            return guarded.table.all.compactMap { entry in
                guard entry.partition === former else {
                    guard entry.base != nil else { return nil }
                    entry.dropEffects(number: guarded.nextNumber())
                    return entries.perform(
                        .nothing,
                        on: entry,
                        in: &guarded,
                        answer: .failure(.cancelled)
                    )
                }
                let next = user.isSomebodys ? guarded.nextNumber() : nil
                entry.pass(to: user)
                guarded.table.measure(entry, 0)
                let actions = entry.state.reset(nextFlight: next)
                return entries.perform(
                    actions,
                    on: entry,
                    in: &guarded,
                    answer: .failure(.userChanged)
                )
            }
        }
        let device = entries.guarded.withLock { $0.device.writer }
        device.anonymize()
        return { [self] in
            for part in parts { part() }
            for ending in endings { ending.perform() }
            for source in user.sources.values { entries.sourceChanged(source.query) }
            entries.deliver()
        }
    }

    /// Ends all that is under way, and writes what waits to be written.
    func close() {
        lists.close()
        stretches.close()
        let (endings, writers) = entries.guarded.withLock {
            guarded -> ([(Entries.Ending, Delivery)], [EntryWriter]) in
            guard !guarded.isClosed else { return ([], []) }
            guarded.isClosed = true
            let endings = guarded.table.all.map { entry in
                let finish = entry.takeObservers()
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
