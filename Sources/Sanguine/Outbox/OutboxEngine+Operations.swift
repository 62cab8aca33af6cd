import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Operations

extension OutboxEngine {
    /// Adds a durable operation, which replaces others, under the lock; see
    /// ``OutboxDriver/admit(_:to:)``.
    typealias Admit = (
        _ row: OutboxFile.Row, _ contents: inout OutboxContents, _ replaced: [Int64]
    ) -> Shown

    /// Adds an operation, which is durable and visible when this method returns.
    ///
    /// - Parameters:
    ///   - row: The operation; its sequence number is assigned here.
    ///   - superseding: The decoded operation, if it may supersede others. Default: `nil`.
    ///   - dryRun: Throws, under the lock, if the operation cannot be applied; otherwise returns
    ///     how to add it.
    /// - Returns: A receipt for the operation's outcome.
    /// - Throws: ``SanguineError``; no operation is added then.
    func perform(
        _ row: OutboxFile.Row,
        _ superseding: (any Superseding)? = nil,
        _ dryRun: (borrowing OutboxContents) throws(SanguineError) -> Admit
    ) throws(SanguineError) -> Receipt {
        try open(row.kind)
        // Taken before the outbox's lock: waiting for it under that lock would block readers.
        let lock = try store { try file.lockForCompanion() }
        defer { lock?.close() }
        let shot = Shot()
        let (shown, removed) = try guarded.withLock {
            guarded throws(SanguineError) -> (Shown, Removed) in
            if let ending = guarded.ending { throw ending }
            let given = row
            var row = try resolveFiles(in: row, &guarded)
            if let needless = needless(for: superseding, row, guarded) {
                return try supersede(needless, by: row, shot, &guarded, dryRun)
            }
            guard !guarded.contents.state.outbox.isFull else {
                throw .outboxFull(limit: RecordLimits.operations)
            }
            let take = try dryRun(guarded.contents)
            row.sequence = try store { try file.insert(row, at: row.id.moment) }
            guarded.receipts[row.sequence] = shot
            let show = admit(row, &guarded) { take($0, &$1, []) }
            guard !row.isSame(as: given) else { return (show, Removed()) }
            // It was applied with the id that its file had before the upload.
            let showAgain = guarded.drivers[row.kind]?.rewritten(row, in: &guarded.contents)
            let shown: Shown = {
                show()
                showAgain?()
            }
            return (shown, Removed())
        }
        show(shown)
        removed.end()
        return receipt(row.id, shot)
    }

    /// Moves an operation from the tray to the end of the queue, under a new id; a partly done
    /// operation keeps its id.
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
            let resolved = try resolveFiles(in: old, isRetry: true, &guarded)
            var row = OutboxFile.Row(
                id: problem.isPartlyDone ? old.id : fresh,
                kind: old.kind,
                lane: resolved.lane,
                name: old.name,
                arguments: resolved.arguments,
                outcomeUnknown: problem.isPartlyDone
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

    /// Removes an operation that is in the tray or was never sent.
    func discard(_ id: Identifier) throws(SanguineError) {
        _ = try remove(id) { item throws(SanguineError) in
            guard let item else { throw .problem(.notInTray) }
            guard item.isRemovable else { throw .problem(.outcomeUnknown) }
            return true
        }
    }

    /// Withdraws an operation that has certainly not reached the backend, or an upload that has not
    /// succeeded.
    ///
    /// - Returns: Whether it was withdrawn.
    func withdraw(_ id: Identifier) throws(SanguineError) -> Bool {
        try remove(id) { $0?.isUnsent == true || $0?.isOpenUpload == true }
    }

    /// - Parameters:
    ///   - id: The operation.
    ///   - isMeant: Returns, under the lock, whether to remove the operation in its current state.
    /// - Returns: Whether the operation was removed.
    /// - Throws: ``SanguineError``; nothing has changed then.
    private func remove(
        _ id: Identifier,
        if isMeant: (OutboxState.Item?) throws(SanguineError) -> Bool
    ) throws(SanguineError) -> Bool {
        try openAll()
        let taken = try guarded.withLock { guarded throws(SanguineError) -> (Shown, Removed)? in
            if let ending = guarded.ending { throw ending }
            let row = guarded.row(id)
            guard try isMeant(row.flatMap { guarded.contents.state.outbox.items[$0.sequence] }),
                let row, let driver = guarded.drivers[row.kind]
            else { return nil }
            if row.kind == .upload, isNamed(row.lane, guarded) { throw .problem(.uploadIsNamed) }
            // On disk first: a removed operation must not return at the next launch.
            try store { try file.write([.removed([row.sequence])]) }
            var removed = Removed()
            removed.tasks += guarded.cancelSend(of: row.sequence)
            let hide = driver.discard([row.sequence], from: &guarded.contents)
            removed.shots += guarded.forget([row.sequence])
            removeUnnamedFiles(of: [row], &guarded, &removed)
            return (hide, removed)
        }
        guard let (hide, removed) = taken else { return false }
        show(hide)
        removed.end()
        return true
    }

    /// Returns a receipt for an operation of that name in the lane that the backend has not
    /// answered yet; `nil` if there is none.
    func receipt(of name: String, in lane: String) throws(SanguineError) -> Receipt? {
        try openAll()
        let found = guarded.withLock { guarded -> (Identifier, Shot)? in
            let row = guarded.contents.rows.values.first { row in
                guard row.name == name, row.lane == lane else { return false }
                switch guarded.contents.state.outbox.items[row.sequence]?.phase {
                case .queued, .sending: return true
                case .acknowledged, .refused, nil: return false
                }
            }
            guard let row else { return nil }
            let shot = guarded.receipts[row.sequence] ?? Shot()
            guarded.receipts[row.sequence] = shot
            return (row.id, shot)
        }
        return found.map { receipt($0, $1) }
    }

    private func receipt(_ id: Identifier, _ shot: Shot) -> Receipt {
        Receipt(id: id, shot: shot) { () throws(SanguineError) in try self.withdraw(id) }
    }

    // MARK: - Superseded operations

    /// Queued operations that a new one supersedes.
    private struct SupersededOperations {
        var sequences: [Int64] = []
        /// Whether the new operation is dropped too, because it only undoes the last of them.
        var isUndone = false
    }

    private func needless(
        for superseding: (any Superseding)?,
        _ row: OutboxFile.Row,
        _ guarded: borrowing Guarded
    ) -> SupersededOperations? {
        // The app may already be sending an operation that its companion has added.
        guard let superseding, !environment.isCompanion, let driver = guarded.drivers[row.kind]
        else { return nil }
        var needless = SupersededOperations()
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

    /// Removes superseded operations and adds the new one, unless it is not needed either, in one
    /// transaction on disk and one visible step.
    private func supersede(
        _ needless: SupersededOperations,
        by row: OutboxFile.Row,
        _ shot: Shot,
        _ guarded: inout Guarded,
        _ dryRun: (borrowing OutboxContents) throws(SanguineError) -> Admit
    ) throws(SanguineError) -> (Shown, Removed) {
        guard let driver = guarded.drivers[row.kind] else { return ({}, Removed()) }
        // The operation is refused as it would be if no other were queued.
        _ = try dryRun(guarded.contents)
        // Works on a copy until the change is on disk: if that fails or the operation is refused,
        // nothing has changed.
        var contents = guarded.contents
        let former = needless.sequences.compactMap { contents.rows[$0] }
        var removed = Removed()
        let hide = driver.discard(needless.sequences, from: &contents)
        if needless.isUndone {
            try store { try file.write([.removed(needless.sequences)]) }
            guarded.contents = contents
            removed.shots = guarded.forget(needless.sequences) + [shot]
            removeUnnamedFiles(of: former, &guarded, &removed)
            return (hide, removed)
        }
        let take = try dryRun(contents)
        var row = row
        row.sequence = try store {
            try file.replace(needless.sequences, by: row, at: row.id.moment)
        }
        guarded.contents = contents
        removed.shots = guarded.forget(needless.sequences)
        guarded.receipts[row.sequence] = shot
        let show = admit(row, &guarded) { take($0, &$1, needless.sequences) }
        removeUnnamedFiles(of: former, &guarded, &removed)
        let shown: Shown = {
            show()
            hide()
        }
        return (shown, removed)
    }

    private func openAll() throws(SanguineError) {
        for kind in guarded.withLock({ $0.drivers.keys }) { try open(kind) }
    }

    /// Shows a durable operation.
    private func show(_ shown: Shown) {
        shown()
        changed()
        environment.durableWrites?()
        sendQueued()
    }

    func store<Value>(_ body: () throws -> Value) throws(SanguineError) -> Value {
        do {
            return try body()
        } catch is OutboxFile.UserChanged {
            throw .userChanged
        } catch {
            throw .store(.writeFailed("the outbox: \(error)"))
        }
    }
}

// MARK: - Contents

extension OutboxEngine {
    /// The operations that are not settled, in the order in which they were created.
    func pending() -> [Outbox.Operation] { guarded.withLock { $0.pending } }

    /// The refused operations.
    func tray() -> [Outbox.Refused] { guarded.withLock { $0.tray } }

    func summary() -> Outbox.Summary { read { $0.state.outbox.summary } }

    /// Returns the operations at one moment, for a report.
    ///
    /// Operations that are on disk only are not included.
    func survey() -> OutboxSurvey {
        guarded.withLock { guarded in
            let outbox = guarded.contents.state.outbox
            let first = outbox.items.values.prefix(MetricsLimits.reportRows)
            let lanes = OutboxSurvey.numbers(of: first.map(\.lane))
            let rows = first.map { item in
                OutboxSurvey.Row(
                    item,
                    name: guarded.contents.rows[item.sequence]?.name ?? "unknown",
                    lane: lanes[item.lane] ?? 0,
                    attempts: outbox.failuresInARow(of: item.sequence),
                    due: outbox.waitingGroups(of: item.sequence)
                        .compactMap { guarded.waking[$0]?.due }.max(),
                    failure: guarded.failures[item.sequence]
                )
            }
            return OutboxSurvey(state: outbox.debugDescription, count: outbox.items.count, rows)
        }
    }

    /// The operations and their numbers at one moment.
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
                progress: item.isBeingSent ? uploads[item.sequence] : nil
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

    /// Forgets removed operations; returns the shots of callers that wait for their outcomes.
    mutating func forget(_ sequences: [Int64]) -> [OutboxEngine.Shot] {
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
        case .queued: self = item.outcomeUnknown ? .sending : .queued
        case .sending: self = .sending
        case .acknowledged: self = .acknowledged
        case .refused: return nil
        }
    }
}
