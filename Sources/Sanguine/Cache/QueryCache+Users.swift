import SanguineModel
import Synchronization

// MARK: - Users

extension QueryCache {
    /// Begins an epoch: removes every value of the audience `user` from memory and disk, and ends
    /// what is under way for it.
    ///
    /// When this returns, nothing of before can be seen. An epoch that is there already, as after
    /// each refresh of a token, removes nothing: at most its account has become known.
    func adopt(_ epoch: SessionEpoch) {
        let endings = guarded.withLock { guarded -> [Ending]? in
            guard epoch.number >= guarded.epoch.number else { return nil }
            guard epoch.number > guarded.epoch.number else {
                // Of two who tell of it, the one who knows the account counts.
                if epoch.account != nil { guarded.epoch = epoch }
                return nil
            }
            guarded.epoch = epoch
            // Operations are the user's, whosoever the values are.
            guarded.effects = EffectTable()
            return guarded.records.values.compactMap { record in
                guard record.audience == .user else {
                    guard let base = record.base else { return nil }
                    record.show(base, of: nil, isEqual: false, number: guarded.nextNumber())
                    return perform(.nothing, on: record, in: &guarded, answer: .failure(.cancelled))
                }
                let next = epoch.account == nil ? nil : guarded.nextNumber()
                let effect = record.state.changeEpoch(to: epoch.number, nextFlight: next)
                guarded.bytes -= record.cost
                record.forget()
                record.isLookedUp = true  // Its row is about to be removed.
                guarded.bytes += record.cost
                return perform(effect, on: record, in: &guarded, answer: .failure(.userChanged))
            }
        }
        guard let endings else { return }
        writer.removeUserEntries(before: epoch.number)
        for ending in endings { ending.perform() }
        deliver()
    }

    /// Ends all that is under way, and writes what waits to be written.
    func close() {
        let endings = guarded.withLock { guarded -> [(Ending, Delivery)] in
            guard !guarded.isClosed else { return [] }
            guarded.isClosed = true
            return guarded.records.values.map { record in
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
        }
        for (ending, finish) in endings {
            ending.perform()
            finish()
        }
        deliver()
        writer.close()
    }

    /// Returns when every value that has landed is on disk.
    func flush() { writer.flush() }

    // A guest gets an account in the middle of an epoch.
    func adoptAccount(_ epoch: SessionEpoch) {
        guarded.withLock { guarded in
            if guarded.epoch.number == epoch.number { guarded.epoch = epoch }
        }
    }
}
