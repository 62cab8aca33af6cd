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
        var random = environment.random
        let row = OutboxFile.Row(
            id: Identifier(at: environment.clock.now(), using: &random),
            lane: mutator.lane,
            name: name,
            arguments: try Self.arguments(of: mutator)
        )
        let shot = OneShot<Receipt.Outcome>()
        let changed = try guarded.withLock { guarded throws(SanguineError) in
            try open(&guarded)
            if environment.isCompanion { _ = notice(&guarded) }
            guard !guarded.state.outbox.isFull else {
                throw .outboxFull(limit: RecordLimits.operations)
            }
            try rehearse(mutator, row, guarded)
            let effects = try insert(row, mutator, in: &guarded)
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
        _ row: OutboxFile.Row,
        _ guarded: borrowing Guarded
    ) throws(SanguineError) {
        let operation = Replay.Operation(
            sequence: .max,
            id: row.id,
            mutator: mutator
        )
        do {
            try guarded.state.replay.rehearse(operation, over: guarded.base)
        } catch let refusal as Refusal {
            throw .problem(refusal.problem)
        } catch {
            throw .store(.readFailed("\(error)"))
        }
    }

    private func insert(
        _ row: OutboxFile.Row,
        _ mutator: any Mutator,
        in guarded: inout Guarded
    ) throws(SanguineError) -> SyncState.Effects {
        var row = row
        do {
            row.sequence = try outbox.insert(row, of: guarded.owner, at: row.id.moment)
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
        guarded.lastTaken = row.sequence
        do {
            return try take(row, as: mutator, in: &guarded)
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
            row.sequence = try outbox.replace(
                sequence,
                by: row,
                of: guarded.owner,
                at: row.id.moment
            )
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
        observers.changed(changed, in: self)
        tellOutbox()
        environment.durableWrites?()
        activate()
        kick()
    }

    // As records travel: dates and numbers are the encoder's own.
    private static func arguments(of mutator: some Mutator) throws(SanguineError) -> Data {
        guard let data = try? JSONEncoder().encode(mutator) else {
            throw .problem(
                Problem(.mutatorFailed, "Make the mutator's members such as JSON can hold.")
            )
        }
        guard data.count <= RecordLimits.operationBytes else {
            throw .problem(
                Problem(.bodyTooLarge, "Keep an operation's arguments within 128 KiB of JSON.")
            )
        }
        return data
    }
}

extension Problem {
    fileprivate static let notInTray = Problem(.notFound, "Name an operation of the outbox's tray.")
    fileprivate static let mayBeDone = Problem(
        .operationInProgress,
        "Wait for the operation's outcome: it was sent, and may be done."
    )
    fileprivate static let discarded = Problem(.notFound, "The operation was discarded.")
}
