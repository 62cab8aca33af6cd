import Foundation
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Operations

extension SyncKeeper {
    /// Takes an operation in: durable and visible when this returns.
    func perform(_ mutator: some Mutator) throws(SanguineError) -> Receipt {
        let name = type(of: mutator).name
        guard environment.schema.mutator(name) != nil else {
            throw .notConfigured("the mutator '\(name)' in 'schema'")
        }
        guard mutator.lane.isPlainText(of: WireLimits.laneCharacters) else {
            throw .problem(.badLane)
        }
        var random = environment.random
        let row = OutboxFile.Row(
            id: Identifier(at: environment.clock.now(), using: &random),
            lane: mutator.lane,
            name: name,
            arguments: try OutboxFile.Row.arguments(of: mutator, .mutator)
        )
        let shot = OneShot<Receipt.Outcome>()
        let changed = try guarded.withLock { guarded throws(SanguineError) in
            try open(&guarded)
            if environment.isCompanion { _ = notice(&guarded) }
            guard !guarded.state.outbox.isFull else {
                throw .outboxFull(limit: RecordLimits.operations)
            }
            let rehearsal = try rehearse(mutator, row.id, guarded)
            let effects = try insert(row, rehearsal, in: &guarded)
            guarded.receipts[guarded.lastTaken] = shot
            return effects.changed
        }
        tookIn(changed)
        return Receipt(id: row.id, shot: shot)
    }

    /// Puts an operation of the tray to the end, under a new id.
    func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        var random = environment.random
        let fresh = Identifier(at: environment.clock.now(), using: &random)
        let shot = OneShot<Receipt.Outcome>()
        let changed = try guarded.withLock { guarded throws(SanguineError) in
            try open(&guarded)
            guard let old = guarded.rows.values.first(where: { $0.id == id }),
                guarded.state.outbox.items[old.sequence]?.isRefused == true
            else { throw .problem(.notInTray) }
            let row = OutboxFile.Row(
                id: fresh,
                lane: old.lane,
                name: old.name,
                arguments: old.arguments
            )
            let changed = try replace(old.sequence, by: row, in: &guarded)
            guarded.receipts[guarded.lastTaken] = shot
            return changed
        }
        tookIn(changed)
        return Receipt(id: fresh, shot: shot)
    }

    /// Takes an operation out that is in the tray, or was never sent.
    func discard(_ id: Identifier) throws(SanguineError) {
        let (changed, receipt) = try guarded.withLock { guarded throws(SanguineError) in
            try open(&guarded)
            guard let row = guarded.rows.values.first(where: { $0.id == id }) else {
                throw .problem(.notInTray)
            }
            do {
                // On disk first: what is discarded must not be back at the next launch.
                guard guarded.state.outbox.mayDiscard(row.sequence) else {
                    throw SanguineError.problem(.mayBeDone)
                }
                try outbox.write([.removed([row.sequence])])
                let effects = try guarded.state.discard(row.sequence, over: guarded.base)
                guarded.rows[row.sequence] = nil
                guarded.revision += 1
                return (
                    effects?.changed ?? [], guarded.receipts.removeValue(forKey: row.sequence)
                )
            } catch let error as SanguineError {
                throw error
            } catch {
                throw .store(.writeFailed("\(error)"))
            }
        }
        receipt?.resolve(.success(.refused(.discarded)))
        tookIn(changed)
    }

    private func rehearse(
        _ mutator: some Mutator,
        _ id: Identifier,
        _ guarded: borrowing Guarded
    ) throws(SanguineError) -> Replay.Rehearsal {
        do {
            return try guarded.state.replay.rehearse(mutator, id: id, over: guarded.base)
        } catch let refusal as Refusal {
            throw .problem(refusal.problem)
        } catch {
            throw .store(.readFailed("\(error)"))
        }
    }

    private func insert(
        _ row: OutboxFile.Row,
        _ rehearsal: Replay.Rehearsal,
        in guarded: inout Guarded
    ) throws(SanguineError) -> SyncState.Effects {
        var row = row
        do {
            row.sequence = try outbox.insert(row, at: row.id.moment)
        } catch is OutboxFile.IsNotPresent {
            throw .userChanged
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
        guarded.lastTaken = row.sequence
        do {
            return try take(row, rehearsed: rehearsal, in: &guarded)
        } catch {
            // It is durable, and is shown when the records can be read again.
            failed(error, &guarded)
            return SyncState.Effects()
        }
    }

    private func replace(
        _ sequence: Int64,
        by row: OutboxFile.Row,
        in guarded: inout Guarded
    ) throws(SanguineError) -> Set<RecordKey> {
        var row = row
        do {
            row.sequence = try outbox.replace(sequence, by: row, at: row.id.moment)
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
        guarded.rows[sequence] = nil
        guarded.lastTaken = row.sequence
        do {
            _ = try guarded.state.discard(sequence, over: guarded.base)
            return try take(row, in: &guarded).changed
        } catch {
            failed(error, &guarded)
            return []
        }
    }

    /// Tells everyone who has to know of an operation that came or went.
    private func tookIn(_ changed: Set<RecordKey>) {
        observers.changed(changed)
        observers.applyNow(changed)
        tellOutbox()
        environment.durableWrites?()
        activate()
        kick()
    }
}
