import Foundation
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Operations

extension MutationKeeper {
    /// Takes a mutation in: durable and visible when this returns.
    func perform(_ mutation: some Mutation) throws(SanguineError) -> Receipt {
        let name = type(of: mutation).name
        guard types[name] != nil else {
            throw .notConfigured("the mutation '\(name)' in 'mutations'")
        }
        try open()
        var random = configuration.random
        var row = OutboxFile.Row(
            id: Identifier(at: clock.now(), using: &random),
            kind: .mutation,
            lane: mutation.lane,
            name: name,
            arguments: try OutboxFile.Row.arguments(of: mutation, .mutation)
        )
        var mutation: any Mutation = mutation
        let replaced = guarded.withLock { $0.replaced }
        if let rewritten = rewrite(row, replaced) {
            (row, mutation) = (rewritten, self.mutation(of: rewritten) ?? mutation)
        }
        row.sequence = try insert(row)
        return show(row, mutation)
    }

    /// Puts an operation of the tray to the end, under a new id; `nil` if it is none of these.
    func retry(_ id: Identifier) throws(SanguineError) -> Receipt? {
        guard let old = row(id) else { return nil }
        guard let mutation = mutation(of: old) else {
            throw .notConfigured("the mutation '\(old.name)' in 'mutations'")
        }
        var random = configuration.random
        var row = OutboxFile.Row(
            id: Identifier(at: clock.now(), using: &random),
            kind: .mutation,
            lane: old.lane,
            name: old.name,
            arguments: old.arguments
        )
        row.sequence = try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guard guarded.state.items[old.sequence]?.isRefused == true
            else { throw .problem(.notInTray) }
            do {
                let sequence = try outbox.replace(old.sequence, by: row, at: row.id.moment)
                _ = guarded.state.discard(old.sequence)
                guarded.forget([old.sequence])
                guarded.reserved += 1
                return sequence
            } catch {
                throw .store(.writeFailed("the outbox: \(error)"))
            }
        }
        return show(row, mutation)
    }

    /// Takes an operation out that is in the tray, or was never sent.
    ///
    /// - Returns: Whether it is one of these.
    func discard(_ id: Identifier) throws(SanguineError) -> Bool {
        guard let row = row(id) else { return false }
        let receipt = try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guard guarded.state.mayDiscard(row.sequence) else { throw .problem(.mayBeDone) }
            do {
                // On disk first: what is discarded must not be back at the next launch.
                try outbox.write([.removed([row.sequence])])
            } catch {
                throw .store(.writeFailed("the outbox: \(error)"))
            }
            _ = guarded.state.discard(row.sequence)
            let receipt = guarded.receipts[row.sequence]
            guarded.forget([row.sequence])
            return receipt
        }
        queries.setEffects([], of: row.sequence, for: user)
        receipt?.resolve(.success(.refused(.discarded)))
        news.changed()
        kick()
        return true
    }

    private func row(_ id: Identifier) -> OutboxFile.Row? {
        guarded.withLock { guarded in guarded.rows.values.first { $0.id == id } }
    }

    private func insert(_ row: OutboxFile.Row) throws(SanguineError) -> Int64 {
        try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guard guarded.state.items.count + guarded.reserved < RecordLimits.operations else {
                throw .outboxFull(limit: RecordLimits.operations)
            }
            do {
                let sequence = try outbox.insert(row, at: row.id.moment)
                guarded.reserved += 1
                return sequence
            } catch {
                throw .store(.writeFailed("the outbox: \(error)"))
            }
        }
    }

    /// Shows what is on disk, and has it sent.
    private func show(_ row: OutboxFile.Row, _ mutation: any Mutation) -> Receipt {
        let shot = Shot()
        let sequence = row.sequence
        let effects = effects(of: mutation, sequence)
        queries.setEffects(effects, of: sequence, for: user)
        guarded.withLock { $0.shown }?(effects.map(\.query.key))
        let ending = guarded.withLock { guarded -> SanguineError? in
            guard guarded.ending == nil else { return guarded.ending }
            guarded.reserved -= 1
            guarded.rows[sequence] = row
            guarded.mutations[sequence] = mutation
            guarded.receipts[sequence] = shot
            guarded.state.add(.init(id: row.id, sequence: sequence, lane: row.lane))
            return nil
        }
        // It is on disk, for the user's return.
        if let ending { shot.resolve(.failure(ending)) }
        // An id may have become a real one in the meantime.
        rewriteWaiting(only: sequence)
        news.changed()
        configuration.durableWrites?()
        kick()
        return Receipt(id: row.id, shot: shot)
    }
}

// MARK: - Ids

extension MutationKeeper {
    /// The row with real ids in the place of temporary ones; `nil` if it has none of these.
    func rewrite(
        _ row: OutboxFile.Row,
        _ replaced: OrderedDictionary<String, String>
    ) -> OutboxFile.Row? {
        guard !replaced.isEmpty,
            let arguments = try? JSONDecoder().decode(JSONValue.self, from: row.arguments)
        else { return nil }
        let other = arguments.replacing(replaced)
        let lane = replaced[row.lane] ?? row.lane
        guard other != arguments || lane != row.lane,
            let data = try? JSONEncoder().encode(other)
        else { return nil }
        var row = row
        row.lane = lane
        row.arguments = data
        return row
    }

    /// Puts real ids in the place of temporary ones wherever something waits.
    ///
    /// - Parameters:
    ///   - own: The operation that was answered; it is rewritten too.
    ///   - only: The one operation that may name a temporary id. Default: all that wait may.
    ///   - records: What is made durable in the same transaction.
    func rewriteWaiting(
        _ own: Int64? = nil,
        only: Int64? = nil,
        with records: [OutboxState.Record] = []
    ) {
        var failure: (any Error)?
        let rows = guarded.withLock { guarded -> [OutboxFile.Row] in
            guard guarded.ending == nil, !guarded.replaced.isEmpty || !records.isEmpty else {
                return []
            }
            var candidates: [OutboxFile.Row] = []
            if !guarded.replaced.isEmpty {
                candidates =
                    only.map { [guarded.rows[$0]].compactMap(\.self) }
                    ?? Array(guarded.rows.values)
            }
            let rows = candidates.filter { row in
                guard let item = guarded.state.items[row.sequence] else { return false }
                return item.phase == .queued || row.sequence == own
            }
            .compactMap { rewrite($0, guarded.replaced) }
            do { try outbox.write(records, rewriting: rows) } catch { failure = error }
            for row in rows {
                guarded.rows[row.sequence] = row
                guarded.state.move(row.sequence, to: row.lane)
            }
            return rows
        }
        if let failure { report(failure) }
        for row in rows {
            if let mutation = mutation(of: row) { take(row, mutation) }
        }
    }

    /// Puts a rewritten mutation in the place of what it was.
    func take(_ row: OutboxFile.Row, _ mutation: any Mutation) {
        let sequence = row.sequence
        let isThere = guarded.withLock { guarded in
            guard guarded.ending == nil, guarded.rows[sequence] != nil else {
                return false
            }
            guarded.rows[sequence] = row
            guarded.mutations[sequence] = mutation
            return true
        }
        guard isThere else { return }
        let effects = effects(of: mutation, sequence)
        queries.setEffects(effects, of: sequence, for: user)
        // It may have been discarded meanwhile.
        if guarded.withLock({ $0.state.items[sequence] == nil }) {
            queries.setEffects([], of: sequence, for: user)
        }
    }
}

extension MutationKeeper.Guarded {
    /// Forgets operations that are over.
    mutating func forget(_ sequences: [Int64]) {
        for sequence in sequences {
            rows[sequence] = nil
            mutations[sequence] = nil
            receipts[sequence] = nil
            failures[sequence] = nil
            settlingTries[sequence] = nil
        }
    }
}

extension JSONValue {
    fileprivate func replacing(_ replaced: OrderedDictionary<String, String>) -> JSONValue {
        switch self {
        case .string(let text): .string(replaced[text] ?? text)
        case .array(let values): .array(values.map { $0.replacing(replaced) })
        case .object(let members): .object(members.mapValues { $0.replacing(replaced) })
        default: self
        }
    }
}
