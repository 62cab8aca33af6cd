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
        begin(user)
        // What comes in parts first: what is observed is fetched through it.
        let parts = [lists.change(to: user), stretches.change(to: user)]
        let endings = guarded.withLock { guarded -> [Ending] in
            guard !guarded.isClosed else { return [] }
            let former = guarded.user
            guarded.user = user
            if former !== guarded.device { former.writer.end() }
            // Operations are the user's, whosoever the values are.
            guarded.effects = EffectTable()
            guarded.unremoved = []
            return guarded.entries.all.compactMap { record in
                guard record.partition === former else {
                    guard let base = record.base else { return nil }
                    record.show(base, of: nil, isEqual: false, number: guarded.nextNumber())
                    return perform(.nothing, on: record, in: &guarded, answer: .failure(.cancelled))
                }
                let next = user.isSomebodys ? guarded.nextNumber() : nil
                record.pass(to: user)
                guarded.entries.measure(record, 0)
                let effect = record.state.reset(nextFlight: next)
                return perform(effect, on: record, in: &guarded, answer: .failure(.userChanged))
            }
        }
        let device = guarded.withLock { $0.device.writer }
        device.anonymize()
        return { [self] in
            for part in parts { part() }
            for ending in endings { ending.perform() }
            for source in user.sources.values { sourceChanged(source.query) }
            deliver()
        }
    }

    /// Ends all that is under way, and writes what waits to be written.
    func close() {
        lists.close()
        stretches.close()
        let (endings, writers) = guarded.withLock {
            guarded -> ([(Ending, Delivery)], [EntryWriter]) in
            guard !guarded.isClosed else { return ([], []) }
            guarded.isClosed = true
            let endings = guarded.entries.all.map { record in
                let finish = record.takeObservers()
                let effect = record.state.close()
                let ending = perform(
                    effect,
                    on: record,
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
        deliver()
        for writer in writers { writer.close() }
    }

    /// Returns when every value that has landed is on disk.
    func flush() {
        let (device, user) = guarded.withLock { ($0.device.writer, $0.user.writer) }
        device.flush()
        user.flush()
        // What waited for the first may wait for the second.
        device.flush()
    }
}
