import Foundation
import SanguineModel

/// Drives the uploads of the outbox: sends files that were copied to the user's folder, and
/// replaces their local ids by those of the server.
///
/// Operations that name a local file are held until its upload has succeeded. A process may end
/// between any two steps:
///
/// 1. The file is copied and flushed. Without step 2, the next launch removes it.
/// 2. The upload is stored in the outbox.
/// 3. Operations that name the local id are stored, and shown.
/// 4. The file is sent. The server's id follows from the content, so it is sent again after a lost
///    response, and a large file continues at its last part.
/// 5. In one transaction, the upload is removed and the operations name the server's id.
/// 6. The file is removed; otherwise by the next launch.
///
/// An upload that no operation names any longer is cancelled, even while it is being sent. The
/// server deletes the part that it has received, because no record names it.
final class FileUploadDriver: OutboxDriver {
    /// The arguments of an upload.
    private struct Arguments: Codable {
        /// The media type that the app has declared.
        var type: String
    }

    /// The name of uploads in the outbox.
    static let name = "$upload"
    /// The media type for files whose type is found by the server.
    static let unknownType = "application/octet-stream"
    /// The number of times that operations which were added in the meantime are refused too.
    private static let refusals = 3

    // No mutable state.
    private let outbox: OutboxEngine
    private let functions: FunctionCaller
    private let images: UserImages

    init(_ outbox: OutboxEngine, _ functions: FunctionCaller, _ images: UserImages) {
        (self.outbox, self.functions, self.images) = (outbox, functions, images)
    }

    private var files: StagedFiles { outbox.file.staged }

    // MARK: - Adding

    /// Copies a file and queues its upload.
    ///
    /// - Returns: The local id of the file, and the receipt of its upload.
    /// - Throws: ``SanguineError``; nothing is left of the file then.
    func add(_ body: RequestBody) throws(SanguineError) -> (id: String, receipt: Receipt) {
        guard canSend else { throw .notConfigured("'server'") }
        if case .parts = body.content {
            throw .invalidDeclaration("Upload bytes or a file, not a form.")
        }
        // Before the file is copied, because files without an upload are removed when it opens.
        try outbox.open(.upload)
        let id = outbox.environment.newId()
        let local = LocalFile.id(id)
        let row = try Self.row(of: local, type: body.type, id: id)
        try files.add(body, as: local)
        do throws(SanguineError) {
            functions.allowSignIn()
            let receipt = try outbox.perform(row) { _ in
                { [self] row, contents, _ in admit(row, to: &contents) }
            }
            return (local, receipt)
        } catch {
            files.remove(local)
            throw error
        }
    }

    /// Returns an upload as it is stored.
    static func row(
        of local: String,
        type: String,
        id: Identifier
    ) throws(SanguineError) -> OutboxFile.Row {
        OutboxFile.Row(
            id: id,
            kind: .upload,
            lane: local,
            name: name,
            arguments: try OutboxFile.Row.arguments(of: Arguments(type: type), .upload)
        )
    }

    /// Returns the declared media type of an upload.
    static func mediaType(of row: OutboxFile.Row) -> String {
        let arguments = try? JSONDecoder().decode(Arguments.self, from: row.arguments)
        return arguments?.type ?? unknownType
    }

    func open(_ contents: inout OutboxContents) throws {
        contents.storedFiles.learn(try outbox.file.storedFiles())
        guard !files.isEmpty else { return }
        let needed = try outbox.file.rows().flatMap { row in
            row.kind == .upload ? [row.lane] : LocalFile.mentions(in: row.arguments).map(\.id)
        }
        files.keep(only: Set(needed))
    }

    func admit(_ row: OutboxFile.Row, to contents: inout OutboxContents) -> Shown {
        var item = OutboxState.Item(
            id: row.id,
            sequence: row.sequence,
            lane: row.lane,
            kind: .upload,
            phase: row.phase
        )
        item.outcomeUnknown = row.outcomeUnknown
        contents.rows[row.sequence] = row
        contents.state.outbox.add(item)
        return {}
    }

    func discard(_ sequences: [Int64], from contents: inout OutboxContents) -> Shown {
        for sequence in sequences { _ = contents.state.outbox.discard(sequence) }
        return {}
    }

    func operation(of row: OutboxFile.Row) -> (any Mutation)? { nil }

    func checkRetry(_ row: OutboxFile.Row) throws(SanguineError) {
        guard files.contains(row.lane) else { throw .problem(.localFileIsGone) }
    }

    // MARK: - Sending

    var canSend: Bool { functions.call.server != nil }

    func prepare(_ rows: [OutboxFile.Row]) -> [OutboxFile.Row] { rows }

    func send(_ departure: OutboxSend) async throws(SanguineError) {
        guard let row = departure.rows.first else { return }
        let local = row.lane
        // Operations that name the file must be known when it is uploaded. If they cannot be read
        // now, they name the server's id as soon as they can.
        try? outbox.open(.record)
        guard let body = try files.body(of: local, type: Self.mediaType(of: row)) else {
            throw .problem(.localFileIsGone)
        }
        let report = UploadReport { [weak outbox] progress in
            outbox?.progressed(row.sequence, progress)
        }
        let facts = try await upload(body, report)
        // Before an operation names the server's id, so that no view has to load the image.
        images.uploaded(local, as: facts.id, files.data(of: local))
        outbox.fileStored(departure, local, as: facts.id)
    }

    private func upload(
        _ body: RequestBody,
        _ report: UploadReport
    ) async throws(SanguineError) -> BlobFacts {
        let account = functions.call.authorizer.account
        do throws(SanguineError) {
            return try await functions.upload(body, report)
        } catch {
            // It was readable at the beginning, and is read from there again. A file that is gone
            // is refused then.
            if case .file(let url) = body.content, error == .fileIsGone(url) {
                throw .unreadableStagedFile
            }
            // A guest that has been merged no longer exists: the file is sent again as the account.
            if error.asProblem != nil, let account, functions.call.authorizer.account != account {
                throw .transport(.interrupted("the guest was merged into another account"))
            }
            throw error
        }
    }

    func verdict(on error: SanguineError, of departure: OutboxSend) -> OutboxVerdict {
        let pause: OutboxState.Failure = error.retryAfter.map { .retryAfter($0) } ?? .retry
        switch error {
        // The server can store the file later; `storage_full` and the like need the user.
        case .problem(let problem):
            switch error.errorClass {
            case .needsSignIn: return .failed(.needsSignIn, wasSent: false)
            case .retryable, .waits, .cancelled: return .failed(pause, wasSent: true)
            case .refused, .gone, .defect: return .refused(problem)
            }
        case .transport(.offline), .store, .notConfigured:
            return .failed(.retry, wasSent: false)
        default: return .failed(pause, wasSent: true)
        }
    }

    func refused(_ departure: OutboxSend, _ problem: Problem) {
        guard let local = departure.rows.first?.lane else { return }
        for number in 1...Self.refusals {
            // First, so that a process that ends in between does the same again.
            outbox.refuseOperations(naming: local, problem)
            let isLast = number == Self.refusals
            if outbox.fileRefused(departure, problem, isLast: isLast) { break }
        }
    }

    func rewritten(_ row: OutboxFile.Row, in contents: inout OutboxContents) -> Shown { {} }

    // No file is needed to upload another one.
    func refuse(_ sequences: [Int64], _ problem: Problem) {}

    func notSent(_ sequences: [Int64]) {}

    func becameActive() {}
}
