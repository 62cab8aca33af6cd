import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Operations

extension OutboxEngine {
    /// Takes an operation in under the lock, once it is durable; see ``OutboxDriver/admit(_:to:)``.
    typealias Admit = (OutboxFile.Row, inout OutboxContents) -> Shown

    /// Takes an operation in: durable and visible when this returns.
    ///
    /// - Parameters:
    ///   - row: The operation; it is given its number here.
    ///   - rehearse: Refuses what cannot be done, under the lock, and says how it is taken in.
    /// - Returns: What tells of its outcome.
    /// - Throws: ``SanguineError``; nothing is taken in then.
    func perform(
        _ row: OutboxFile.Row,
        _ rehearse: (borrowing OutboxContents) throws(SanguineError) -> Admit
    ) throws(SanguineError) -> Receipt {
        try open(row.kind)
        let shot = Shot()
        let shown = try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guard !guarded.contents.state.outbox.isFull else {
                throw .outboxFull(limit: RecordLimits.operations)
            }
            let take = try rehearse(guarded.contents)
            var row = row
            row.sequence = try store { try file.insert(row, at: row.id.moment) }
            guarded.receipts[row.sequence] = shot
            return admit(row, &guarded, take)
        }
        show(shown)
        return Receipt(id: row.id, shot: shot)
    }

    /// Puts an operation of the tray to the end, under a new id.
    func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        try openAll()
        let shot = Shot()
        let fresh = environment.newId()
        let shown = try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guard let old = guarded.row(id), let driver = guarded.drivers[old.kind],
                guarded.contents.state.outbox.items[old.sequence]?.isRefused == true
            else { throw .problem(.notInTray) }
            try driver.checkRetry(old)
            var row = OutboxFile.Row(
                id: fresh,
                kind: old.kind,
                lane: old.lane,
                name: old.name,
                arguments: old.arguments
            )
            row.sequence = try store {
                try file.replace(old.sequence, by: row, at: row.id.moment)
            }
            _ = guarded.contents.state.outbox.discard(old.sequence)
            (guarded.contents.rows[old.sequence], guarded.failures[old.sequence]) = (nil, nil)
            guarded.receipts[row.sequence] = shot
            return admit(row, &guarded) { driver.admit($0, to: &$1) }
        }
        show(shown)
        return Receipt(id: fresh, shot: shot)
    }

    /// Takes an operation out that is in the tray, or was never sent.
    func discard(_ id: Identifier) throws(SanguineError) {
        try openAll()
        let (hide, receipt) = try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guard let row = guarded.row(id), let driver = guarded.drivers[row.kind] else {
                throw .problem(.notInTray)
            }
            guard guarded.contents.state.outbox.mayDiscard(row.sequence) else {
                throw .problem(.mayBeDone)
            }
            // On disk first: what is discarded must not be back at the next launch.
            try store { try file.write([.removed([row.sequence])]) }
            let hide = driver.discard(row.sequence, from: &guarded.contents)
            guarded.contents.rows[row.sequence] = nil
            guarded.failures[row.sequence] = nil
            return (hide, guarded.receipts.removeValue(forKey: row.sequence))
        }
        hide()
        receipt?.resolve(.success(.refused(.discarded)))
        changed()
        environment.durableWrites?()
        kick()
    }

    private func openAll() throws(SanguineError) {
        for kind in guarded.withLock({ $0.drivers.keys }) { try open(kind) }
    }

    /// Shows an operation that is durable.
    private func show(_ shown: Shown) {
        shown()
        changed()
        environment.durableWrites?()
        kick()
    }

    private func store<Value>(_ body: () throws -> Value) throws(SanguineError) -> Value {
        do {
            return try body()
        } catch is OutboxFile.IsNotPresent {
            throw .userChanged
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
    }
}

// MARK: - What the outbox shows

extension OutboxEngine {
    /// The operations that are not settled, in the order in which they were made.
    func pending() -> [Outbox.Operation] {
        read { contents in
            contents.state.outbox.items.values.compactMap { item in
                guard let phase = Outbox.Phase(item), let row = contents.rows[item.sequence] else {
                    return nil
                }
                return Outbox.Operation(
                    id: item.id,
                    name: row.name,
                    lane: item.lane,
                    phase: phase,
                    conflict: contents.state.replay.refusal(of: item.sequence)
                )
            }
        }
    }

    /// The operations that were refused.
    func tray() -> [Outbox.Refused] {
        read { contents in
            contents.state.outbox.items.values.compactMap { item in
                guard case .refused(let problem) = item.phase,
                    let row = contents.rows[item.sequence]
                else { return nil }
                return Outbox.Refused(
                    id: item.id,
                    name: row.name,
                    lane: item.lane,
                    problem: problem
                )
            }
        }
    }

    func summary() -> Outbox.Summary { read { $0.state.outbox.summary } }
}

extension OutboxEngine.Guarded {
    fileprivate func row(_ id: Identifier) -> OutboxFile.Row? {
        contents.rows.values.first { $0.id == id }
    }
}

extension Outbox.Phase {
    fileprivate init?(_ item: OutboxState.Item) {
        switch item.phase {
        case .queued: self = item.mayBeDone ? .sending : .queued
        case .sending: self = .sending
        case .acknowledged: self = .acknowledged
        case .refused: return nil
        }
    }
}
