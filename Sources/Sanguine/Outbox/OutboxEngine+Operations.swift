import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Operations

extension OutboxEngine {
    /// Takes an operation in under the lock, once it is durable, in the place of others; see
    /// ``OutboxDriver/admit(_:to:)``.
    typealias Admit = (
        _ row: OutboxFile.Row, _ contents: inout OutboxContents, _ replaced: [Int64]
    ) -> Shown

    /// Takes an operation in: durable and visible when this returns.
    ///
    /// - Parameters:
    ///   - row: The operation; it is given its number here.
    ///   - superseding: The operation itself, if it may make others needless. Default: `nil`.
    ///   - rehearse: Refuses what cannot be done, under the lock, and says how it is taken in.
    /// - Returns: What tells of its outcome.
    /// - Throws: ``SanguineError``; nothing is taken in then.
    func perform(
        _ row: OutboxFile.Row,
        _ superseding: (any Superseding)? = nil,
        _ rehearse: (borrowing OutboxContents) throws(SanguineError) -> Admit
    ) throws(SanguineError) -> Receipt {
        try open(row.kind)
        // Before the outbox's own lock, behind which reads would wait.
        let lock = try store { try file.lockForCompanion() }
        defer { lock?.close() }
        let shot = Shot()
        let (shown, withdrawn) = try guarded.withLock {
            guarded throws(SanguineError) -> (Shown, [Shot]) in
            if let ending = guarded.ending { throw ending }
            if let needless = needless(for: superseding, row, guarded) {
                return try supersede(needless, by: row, shot, &guarded, rehearse)
            }
            guard !guarded.contents.state.outbox.isFull else {
                throw .outboxFull(limit: RecordLimits.operations)
            }
            let take = try rehearse(guarded.contents)
            var row = row
            row.sequence = try store { try file.insert(row, at: row.id.moment) }
            guarded.receipts[row.sequence] = shot
            return (admit(row, &guarded) { take($0, &$1, []) }, [])
        }
        show(shown)
        for shot in withdrawn { shot.resolve(.success(.withdrawn)) }
        return receipt(row.id, shot)
    }

    /// Puts an operation of the tray to the end, under a new id; under its own, if a part of it is
    /// done.
    func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        try openAll()
        let shot = Shot()
        let fresh = environment.newId()
        let (shown, used) = try guarded.withLock {
            guarded throws(SanguineError) -> (Shown, Identifier) in
            if let ending = guarded.ending { throw ending }
            guard let old = guarded.row(id), let driver = guarded.drivers[old.kind],
                case .refused(let problem) = guarded.contents.state.outbox.items[old.sequence]?
                    .phase
            else { throw .problem(.notInTray) }
            try driver.checkRetry(old)
            var row = OutboxFile.Row(
                id: problem.isPartlyDone ? old.id : fresh,
                kind: old.kind,
                lane: old.lane,
                name: old.name,
                arguments: old.arguments,
                mayBeDone: problem.isPartlyDone
            )
            row.sequence = try store {
                try file.replace([old.sequence], by: row, at: row.id.moment)
            }
            _ = guarded.contents.state.outbox.discard(old.sequence)
            (guarded.contents.rows[old.sequence], guarded.failures[old.sequence]) = (nil, nil)
            guarded.receipts[row.sequence] = shot
            return (admit(row, &guarded) { driver.admit($0, to: &$1) }, row.id)
        }
        show(shown)
        return receipt(used, shot)
    }

    /// Takes an operation out that is in the tray, or was never sent.
    func discard(_ id: Identifier) throws(SanguineError) {
        _ = try takeOut(id) { item throws(SanguineError) in
            guard let item else { throw .problem(.notInTray) }
            guard item.isRefused || item.isUnsent else { throw .problem(.mayBeDone) }
            return true
        }
    }

    /// Takes an operation back that has surely reached nobody.
    ///
    /// - Returns: Whether it was taken back.
    func withdraw(_ id: Identifier) throws(SanguineError) -> Bool {
        try takeOut(id) { $0?.isUnsent == true }
    }

    /// - Parameters:
    ///   - id: The operation.
    ///   - isMeant: Whether it is taken out, as it is at that moment; under the lock.
    /// - Returns: Whether it was.
    /// - Throws: ``SanguineError``; nothing has changed then.
    private func takeOut(
        _ id: Identifier,
        if isMeant: (OutboxState.Item?) throws(SanguineError) -> Bool
    ) throws(SanguineError) -> Bool {
        try openAll()
        let taken = try guarded.withLock { guarded throws(SanguineError) -> (Shown, [Shot])? in
            if let ending = guarded.ending { throw ending }
            let row = guarded.row(id)
            guard try isMeant(row.flatMap { guarded.contents.state.outbox.items[$0.sequence] }),
                let row, let driver = guarded.drivers[row.kind]
            else { return nil }
            // On disk first: what is taken out must not be back at the next launch.
            try store { try file.write([.removed([row.sequence])]) }
            let hide = driver.discard([row.sequence], from: &guarded.contents)
            return (hide, guarded.forget([row.sequence]))
        }
        guard let (hide, receipts) = taken else { return false }
        show(hide)
        for receipt in receipts { receipt.resolve(.success(.withdrawn)) }
        return true
    }

    private func receipt(_ id: Identifier, _ shot: Shot) -> Receipt {
        Receipt(id: id, shot: shot) { () throws(SanguineError) in try self.withdraw(id) }
    }

    // MARK: - Needless operations

    /// Waiting operations that a new one makes needless.
    private struct Needless {
        var sequences: [Int64] = []
        /// Whether the new one is needless, too.
        var isUndone = false
    }

    private func needless(
        for superseding: (any Superseding)?,
        _ row: OutboxFile.Row,
        _ guarded: borrowing Guarded
    ) -> Needless? {
        // What a companion has taken in the app may be sending.
        guard let superseding, !environment.isCompanion, let driver = guarded.drivers[row.kind]
        else { return nil }
        var needless = Needless()
        for sequence in guarded.contents.state.outbox.unsent(row.kind, in: row.lane) {
            guard let earlier = guarded.contents.rows[sequence],
                let operation = driver.operation(of: earlier),
                let supersession = superseding.supersedes(operation)
            else { continue }
            needless.sequences.append(sequence)
            needless.isUndone = supersession == .undoes
            if needless.isUndone { break }
        }
        return needless.sequences.isEmpty ? nil : needless
    }

    /// Takes operations out, and a new one in, unless it is needless as well: durably in one
    /// transaction, and to be shown in one step.
    private func supersede(
        _ needless: Needless,
        by row: OutboxFile.Row,
        _ shot: Shot,
        _ guarded: inout Guarded,
        _ rehearse: (borrowing OutboxContents) throws(SanguineError) -> Admit
    ) throws(SanguineError) -> (Shown, [Shot]) {
        guard let driver = guarded.drivers[row.kind] else { return ({}, []) }
        // It is refused as it would be if nothing waited.
        _ = try rehearse(guarded.contents)
        // A copy until it is on disk: if that fails, or it is refused, nothing has changed.
        var contents = guarded.contents
        let hide = driver.discard(needless.sequences, from: &contents)
        if needless.isUndone {
            try store { try file.write([.removed(needless.sequences)]) }
            guarded.contents = contents
            return (hide, guarded.forget(needless.sequences) + [shot])
        }
        let take = try rehearse(contents)
        var row = row
        row.sequence = try store {
            try file.replace(needless.sequences, by: row, at: row.id.moment)
        }
        guarded.contents = contents
        let withdrawn = guarded.forget(needless.sequences)
        guarded.receipts[row.sequence] = shot
        let show = admit(row, &guarded) { take($0, &$1, needless.sequences) }
        let shown: Shown = {
            show()
            hide()
        }
        return (shown, withdrawn)
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
    func pending() -> [Outbox.Operation] { guarded.withLock { $0.pending } }

    /// The operations that were refused.
    func tray() -> [Outbox.Refused] { guarded.withLock { $0.tray } }

    func summary() -> Outbox.Summary { read { $0.state.outbox.summary } }

    /// All of these, at one moment.
    func listing() -> Outbox.Listing {
        guarded.withLock { guarded in
            Outbox.Listing(
                pending: guarded.pending,
                refused: guarded.tray,
                summary: guarded.contents.state.outbox.summary
            )
        }
    }
}

extension OutboxEngine.Guarded {
    fileprivate var pending: [Outbox.Operation] {
        contents.state.outbox.items.values.compactMap { item in
            guard let phase = Outbox.Phase(item), let row = contents.rows[item.sequence] else {
                return nil
            }
            return Outbox.Operation(
                id: item.id,
                name: row.name,
                lane: item.lane,
                phase: phase,
                conflict: contents.state.replay.refusal(of: item.sequence),
                lastFailure: phase == .acknowledged ? nil : failures[item.sequence],
                progress: item.isOnItsWay ? uploads[item.sequence] : nil
            )
        }
    }

    fileprivate var tray: [Outbox.Refused] {
        contents.state.outbox.items.values.compactMap { item in
            guard case .refused(let problem) = item.phase, let row = contents.rows[item.sequence]
            else { return nil }
            return Outbox.Refused(
                id: item.id,
                name: row.name,
                lane: item.lane,
                problem: problem,
                isPartlyDone: problem.isPartlyDone
            )
        }
    }

    /// Forgets operations that were taken out; returns who waits for their outcome.
    fileprivate mutating func forget(_ sequences: [Int64]) -> [OutboxEngine.Shot] {
        sequences.compactMap { sequence in
            (contents.rows[sequence], failures[sequence]) = (nil, nil)
            return receipts.removeValue(forKey: sequence)
        }
    }

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
