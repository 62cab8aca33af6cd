import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Local files

extension OutboxEngine {
    /// What is left to do, without a lock, after operations were removed.
    struct Removed {
        /// The callers that wait for their outcomes.
        var shots: [Shot] = []
        /// The uploads that were being sent.
        var tasks: [Task<Void, Never>] = []

        func end() {
            for task in tasks { task.cancel() }
            for shot in shots { shot.resolve(.success(.withdrawn)) }
        }
    }

    /// Prepares an operation that names local files: a file that was uploaded is named by the
    /// server's id, and a file whose upload has ended otherwise is queued again.
    ///
    /// - Parameters:
    ///   - row: The operation.
    ///   - isRetry: Whether a refused upload is queued again. Default: the operation is refused.
    ///   - guarded: The contents.
    /// - Returns: The operation. Each file that it still names has an upload that is queued or
    ///   being sent.
    /// - Throws: ``SanguineError``: the problem of a refused upload, `not_found` if a file is gone,
    ///   `store` if the disk failed.
    func resolveFiles(
        in row: OutboxFile.Row,
        isRetry: Bool = false,
        _ guarded: inout Guarded
    ) throws(SanguineError) -> OutboxFile.Row {
        guard row.kind != .upload, guarded.drivers[.upload] != nil else { return row }
        var row = row
        for mention in LocalFile.mentions(in: row.arguments) {
            let local = mention.id
            if let real = guarded.contents.storedFiles.real(of: local) {
                row = row.naming(real, insteadOf: local)
            } else if let upload = guarded.upload(of: local) {
                let phase = guarded.contents.state.outbox.items[upload.sequence]?.phase
                guard case .refused(let problem) = phase else { continue }
                guard isRetry else { throw .problem(problem) }
                try requeue(local, replacing: upload, &guarded)
            } else if file.staged.contains(local) {
                try requeue(local, replacing: nil, &guarded)
            } else if mention.isWhole {
                throw .problem(.localFileIsGone)
            }
        }
        return row
    }

    /// Queues the upload of a file that is on this device.
    private func requeue(
        _ local: String,
        replacing refused: OutboxFile.Row?,
        _ guarded: inout Guarded
    ) throws(SanguineError) {
        guard let driver = guarded.drivers[.upload] else { return }
        var row = try FileUploadDriver.row(
            of: local,
            // The server finds the type of a file whose upload is no longer known.
            type: refused.map { FileUploadDriver.mediaType(of: $0) }
                ?? FileUploadDriver.unknownType,
            id: environment.newId()
        )
        let old = refused.map { [$0.sequence] } ?? []
        row.sequence = try store { try file.replace(old, by: row, at: row.id.moment) }
        for sequence in old {
            _ = guarded.contents.state.outbox.discard(sequence)
            _ = guarded.forget([sequence])
        }
        _ = admit(row, &guarded) { driver.admit($0, to: &$1) }
    }

    /// Holds operations until the files that they name are uploaded.
    ///
    /// - Parameters:
    ///   - row: An operation that names files, or an upload; it was just added.
    ///   - guarded: The contents.
    func holdForFiles(_ row: OutboxFile.Row, _ guarded: inout Guarded) {
        if row.kind == .upload {
            for other in guarded.contents.rows.values where other.names(row.lane) {
                guarded.contents.state.outbox.hold(other.sequence, until: row.sequence)
            }
        } else {
            for mention in LocalFile.mentions(in: row.arguments) {
                guard let upload = guarded.upload(of: mention.id) else { continue }
                guarded.contents.state.outbox.hold(row.sequence, until: upload.sequence)
            }
        }
    }

    /// Removes files that no operation names any longer, and cancels their uploads.
    ///
    /// - Parameters:
    ///   - rows: Operations that were removed.
    ///   - guarded: The contents.
    ///   - removed: Receives the uploads that were removed.
    func removeUnnamedFiles(
        of rows: [OutboxFile.Row],
        _ guarded: inout Guarded,
        _ removed: inout Removed
    ) {
        for local in Set(rows.flatMap(\.localFiles)) where !isNamed(local, guarded) {
            if let upload = guarded.upload(of: local) {
                // If it stays on disk, the next launch uploads a file that nothing names.
                guard guarded.contents.state.outbox.mayDiscard(upload.sequence),
                    (try? file.write([.removed([upload.sequence])])) != nil
                else { continue }
                removed.tasks += guarded.cancelSend(of: upload.sequence)
                _ = guarded.contents.state.outbox.discard(upload.sequence)
                removed.shots += guarded.forget([upload.sequence])
            }
            file.staged.remove(local)
        }
    }

    /// Whether an operation names a local file, in this process or on disk: one of another process
    /// may not be loaded yet.
    func isNamed(_ local: String, _ guarded: borrowing Guarded) -> Bool {
        guarded.isNamed(local) || (try? file.isNamed(local)) != false
    }

    /// Returns the server's id of a local file that was uploaded; `nil` for any other file.
    func storedFile(_ local: String) -> String? {
        guard LocalFile.isValid(local) else { return nil }
        return read { $0.storedFiles.real(of: local) }
    }

    // MARK: - The ends of uploads

    /// Records, durably, that a file was uploaded; operations name the server's id afterwards.
    func fileStored(_ departure: OutboxSend, _ local: String, as real: String) {
        var failure: (any Error)?
        let ended = guarded.withLock { guarded -> ([OutboxState.Step], [Shown])? in
            let send = departure.send
            guard guarded.sends[send.number] != nil else { return nil }
            let results = departure.rows.map { PushResult(id: $0.id, status: .applied, head: 0) }
            var steps = guarded.contents.state.outbox.complete(send.number, results)
            steps += guarded.contents.state.outbox.settle(send.sequences)
            for sequence in send.sequences { guarded.failures[sequence] = nil }
            guarded.contents.storedFiles.learn([(local, real)])
            let rows = guarded.contents.rows.values.filter { $0.names(local) }
                .map { $0.naming(real, insteadOf: local) }
            do {
                try file.store(local, as: real, steps, rewriting: rows)
                file.staged.remove(local)
            } catch {
                // The next launch uploads the file again, under the same id.
                failure = error
            }
            guarded.replaceRows(rows)
            let shown = rows.compactMap { row -> Shown? in
                guard guarded.contents.state.outbox.items[row.sequence]?.isRefused == false else {
                    return nil
                }
                return guarded.drivers[row.kind]?.rewritten(row, in: &guarded.contents)
            }
            return (steps, shown)
        }
        if let failure { report(failure) }
        guard let (steps, shown) = ended else { return }
        for show in shown { show() }
        deliverOutcomes(steps)
    }

    /// Moves the operations that name a file to the tray.
    func refuseOperations(naming local: String, _ problem: Problem) {
        let (kinds, drivers) = guarded.withLock { guarded in
            let sequences = guarded.unsentOperations(naming: local)
            let kinds = Dictionary(grouping: sequences) { guarded.contents.rows[$0]?.kind }
            return (kinds, guarded.drivers)
        }
        for case (let kind?, let sequences) in kinds {
            drivers[kind]?.refuse(sequences.sorted(), problem)
        }
    }

    /// Moves operations to the tray, durably.
    func refuse(_ sequences: [Int64], _ problem: Problem) -> [OutboxState.Step] {
        var failure: (any Error)?
        let steps = guarded.withLock { guarded in
            let steps = guarded.contents.state.outbox.refuse(sequences, problem)
            do { try file.write(steps) } catch { failure = error }
            return steps
        }
        if let failure { report(failure) }
        return steps
    }

    /// Records, durably, that an upload was refused.
    ///
    /// If operations name the file, they are in the tray with the reason, and the upload is
    /// removed: a retry of one of them queues it again. Otherwise the upload itself is in the tray.
    ///
    /// - Parameters:
    ///   - departure: The upload.
    ///   - problem: The reason.
    ///   - isLast: Whether the upload ends even if an operation that names it is still queued.
    /// - Returns: Whether the upload has ended; `false` if an operation has been added.
    func fileRefused(_ departure: OutboxSend, _ problem: Problem, isLast: Bool) -> Bool {
        var failure: (any Error)?
        let ended = guarded.withLock { guarded -> [OutboxState.Step]? in
            let send = departure.send
            guard let row = departure.rows.first, guarded.sends[send.number] != nil else {
                return []
            }
            guard isLast || guarded.unsentOperations(naming: row.lane).isEmpty else { return nil }
            let result = PushResult(id: row.id, status: .refused, problem: problem)
            var steps = guarded.contents.state.outbox.complete(send.number, [result])
            guarded.failures[row.sequence] = nil
            if guarded.isNamed(row.lane), !isLast {
                steps += guarded.contents.state.outbox.discard(row.sequence) ?? []
            }
            do { try file.write(steps) } catch { failure = error }
            return steps
        }
        if let failure { report(failure) }
        guard let steps = ended else { return false }
        deliverOutcomes(steps)
        return true
    }
}

extension OutboxEngine.Guarded {
    /// Returns the upload of a local file; `nil` if there is none.
    func upload(of local: String) -> OutboxFile.Row? {
        contents.rows.values.first { row in
            row.kind == .upload && row.lane == local
                && contents.state.outbox.items[row.sequence] != nil
        }
    }

    /// Whether an operation names a local file.
    func isNamed(_ local: String) -> Bool { contents.rows.values.contains { $0.names(local) } }

    /// Ends the send of an upload that is removed next; returns its task, to be cancelled without a
    /// lock.
    mutating func cancelSend(of sequence: Int64) -> [Task<Void, Never>] {
        guard let item = contents.state.outbox.items[sequence], item.kind == .upload,
            case .sending(let number) = item.phase
        else { return [] }
        uploads[sequence] = nil
        return [sends.removeValue(forKey: number)?.task].compactMap(\.self)
    }

    /// The queued operations that name a local file.
    fileprivate func unsentOperations(naming local: String) -> [Int64] {
        contents.rows.values.filter { row in
            row.names(local) && contents.state.outbox.items[row.sequence]?.isUnsent == true
        }
        .map(\.sequence)
    }
}

extension OutboxFile.Row {
    /// The local files that the operation needs.
    fileprivate var localFiles: [String] {
        kind == .upload ? [lane] : LocalFile.mentions(in: arguments).map(\.id)
    }
}
