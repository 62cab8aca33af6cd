import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Files that are uploaded by the outbox, before the operations that name them.
@Suite("Queued uploads", .bounded)
struct QueuedUploadTests {
    private let stage = GalleryStage()

    @Test func `a record with a photo is visible at once, and sent after its file`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        #expect(client.shownPhoto("a") == upload.id)
        #expect(stage.uploads == 0 && stage.pushed.isEmpty && stage.staged.count == 1)

        stage.connectivity.connect()
        try await client.synchronize()
        #expect(try await receipt.outcome == .applied)
        let photo = try #require(stage.photo("a"))
        #expect(photo.count == 64 && client.shownPhoto("a") == photo)
        #expect(client.fileID(of: upload.id) == photo)
        #expect(stage.pushed.allSatisfy { !$0.contains("local-file") } && stage.pushed.count == 1)
        let paths = stage.network.requests.map { $0.url.path() }
        let file = try #require(paths.firstIndex(of: GalleryStage.uploadPath))
        #expect(file < paths.firstIndex(of: "/v1/sync/push") ?? 0)
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
    }

    @Test func `the image is in memory under both ids, so that no view flashes`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let size = GalleryStage.size
        let upload = try await client.enqueueUpload(of: GalleryStage.photo(), fitting: size)
        let first = client.images.cached(.file(upload.id), fitting: size)
        #expect(first?.isThumbnail == false)

        stage.connectivity.connect()
        try await client.synchronize()
        let photo = try #require(client.fileID(of: upload.id))
        #expect(client.images.cached(.file(photo), fitting: size)?.isThumbnail == false)
        #expect(client.images.cached(.file(upload.id), fitting: size)?.isThumbnail == false)
        client.images.trimMemory()
        let again = try await client.images.image(.file(photo), fitting: size)
        #expect(again.origin == .disk)
        #expect(!stage.network.requests.contains { $0.url.path().hasPrefix("/v1/blobs/") })
    }

    @Test func `only the lane of the operation waits for the file`() async throws {
        stage.decide { $0.url.path() == GalleryStage.uploadPath ? .lost : .served }
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        try client.addPhoto("b", "later in the lane")
        let other = try client.addPhoto("c", "in another lane", line: "other")
        #expect(try await other.outcome == .applied)
        #expect(stage.photo("c") != nil && stage.photo("a") == nil && stage.photo("b") == nil)

        stage.decide { _ in .served }
        try await stage.delay.advancing { try await client.synchronize() }
        #expect(stage.photo("a")?.count == 64 && stage.photo("b") == "later in the lane")
    }

    @Test func `a file that is in a text is replaced there`() async throws {
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", "![a cat](\(upload.id))")
        try await client.synchronize()
        let photo = try #require(client.fileID(of: upload.id))
        #expect(stage.photo("a") == "![a cat](\(photo))")
    }

    @Test func `two operations can name a file, which is sent once`() async throws {
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        try client.addPhoto("b", upload.id, line: "other")
        try await client.synchronize()
        #expect(stage.photo("a")?.count == 64 && stage.photo("a") == stage.photo("b"))
        #expect(stage.uploads == 1)
    }

    @Test func `an operation can name a file after its upload, and after a restart`() async throws {
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try await client.synchronize()
        let photo = try #require(client.fileID(of: upload.id))
        try client.addPhoto("a", upload.id)
        #expect(client.shownPhoto("a") == photo)
        client.close()
        let next = try stage.client()
        #expect(next.fileID(of: upload.id) == photo)
        try next.addPhoto("b", upload.id)
        try await next.synchronize()
        #expect(stage.photo("a") == photo && stage.photo("b") == photo)
        #expect(stage.uploads == 1)
    }

    @Test func `a mutation for another backend waits for its file too`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.perform(SharePhoto(photo: upload.id))
        stage.connectivity.connect()
        #expect(try await receipt.outcome == .applied)
        let photo = try #require(client.fileID(of: upload.id))
        #expect(stage.shared == [#"{"photo":"\#(photo)"}"#])
    }

    @Test func `the app may remove its file when the upload is queued`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let url = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try Data(SampleFile.png.bytes()).write(to: url)
        let upload = try await client.enqueueUpload(of: .file(url, type: "image/png"))
        try FileManager.default.removeItem(at: url)
        try client.addPhoto("a", upload.id)
        stage.connectivity.connect()
        try await client.synchronize()
        #expect(stage.photo("a")?.count == 64)
    }

    // MARK: - Refusals

    @Test func `a refused file refuses its operations, and a retry sends it again`() async throws {
        stage.authority.fail(GalleryStage.uploadPath, with: Problem(.storageFull, "A test's."))
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        try client.addPhoto("b", "later in the lane")
        stage.connectivity.connect()
        guard case .refused(let problem) = try await receipt.outcome else {
            Issue.record("The operation was not refused.")
            return
        }
        #expect(problem.code == .storageFull)
        #expect(client.shownPhoto("a") == nil && client.shownPhoto("b") != nil)
        try await eventually("only the operation in the tray") {
            client.outbox.refused.map(\.name) == [AddPhoto.name] && stage.photo("b") != nil
        }
        #expect(stage.staged.count == 1)

        stage.connectivity.disconnect()
        let retry = try client.outbox.retry(receipt.id)
        #expect(client.shownPhoto("a") == upload.id)
        stage.connectivity.connect()
        try await client.synchronize()
        #expect(try await retry.outcome == .applied)
        #expect(stage.photo("a")?.count == 64)
        #expect(stage.staged.isEmpty && client.outbox.refused.isEmpty)
    }

    @Test func `an operation that names a refused file is refused at once`() async throws {
        stage.authority.fail(GalleryStage.uploadPath, with: Problem(.storageFull, "A test's."))
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        _ = try await upload.receipt.outcome
        let error = #expect(throws: SanguineError.self) { try client.addPhoto("a", upload.id) }
        #expect(error?.code == ProblemCode.storageFull.rawValue)
        #expect(client.shownPhoto("a") == nil && client.outbox.pending.isEmpty)
    }

    @Test func `a refused operation keeps its reason after a restart`() async throws {
        stage.authority.fail(GalleryStage.uploadPath, with: Problem(.storageFull, "A test's."))
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        stage.connectivity.connect()
        _ = try await receipt.outcome
        client.close()
        let next = try stage.client()
        #expect(next.shownPhoto("a") == nil)
        #expect(next.outbox.refused.map(\.problem.code) == [.storageFull])
        let retry = try next.outbox.retry(receipt.id)
        try await next.synchronize()
        #expect(try await retry.outcome == .applied)
        #expect(stage.photo("a")?.count == 64)
    }

    @Test func `a refused file is removed with the last operation that names it`() async throws {
        stage.authority.fail(GalleryStage.uploadPath, with: Problem(.storageFull, "A test's."))
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let first = try client.addPhoto("a", upload.id)
        let second = try client.addPhoto("b", upload.id, line: "other")
        stage.connectivity.connect()
        _ = (try await first.outcome, try await second.outcome)
        try client.outbox.discard(first.id)
        #expect(stage.staged.count == 1)
        try client.outbox.discard(second.id)
        try await eventually("an empty folder") {
            stage.staged.isEmpty && client.outbox.refused.isEmpty
        }
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `a refused file without operations is in the tray itself`() async throws {
        let problem = Problem(.unsupportedMediaType, "A test's.")
        stage.authority.fail(GalleryStage.uploadPath, with: problem)
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let outcome = try await upload.receipt.outcome
        #expect(outcome != .applied)
        #expect(client.outbox.refused.map(\.id) == [upload.receipt.id])
        let refusal = #expect(throws: SanguineError.self) { try client.addPhoto("a", upload.id) }
        #expect(refusal?.asProblem?.code == .unsupportedMediaType)
        try client.outbox.discard(upload.receipt.id)
        #expect(stage.staged.isEmpty && client.outbox.refused.isEmpty)
    }

    @Test func `an operation cannot name a file that is gone`() async throws {
        let client = try stage.client()
        let unknown = LocalFile.id(Identifier(at: Timestamp(millisecondsSince1970: 1)))
        let error = #expect(throws: SanguineError.self) { try client.addPhoto("a", unknown) }
        #expect(error?.asProblem?.code == .notFound)
        #expect(client.outbox.pending.isEmpty && client.shownPhoto("a") == nil)
    }

    // MARK: - Removal

    @Test func `a withdrawn record removes its file before the upload`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        let error = #expect(throws: SanguineError.self) {
            try client.outbox.discard(upload.receipt.id)
        }
        #expect(error?.asProblem?.code == .operationInProgress)
        #expect(try receipt.withdraw())
        #expect(try await upload.receipt.outcome == .withdrawn)
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
        stage.connectivity.connect()
        try await client.synchronize()
        #expect(stage.uploads == 0)
    }

    @Test func `a sign-out keeps the file with its operation, and an erasure removes it`()
        async throws
    {
        let account = try #require(stage.authorizer.account)
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        stage.authorizer.change(to: nil, in: client)
        #expect(client.outbox.pending.isEmpty && stage.staged.count == 1)
        #expect(client.images.cached(.file(upload.id)) == nil)
        stage.authorizer.change(to: account, in: client)
        #expect(client.shownPhoto("a") == upload.id && stage.staged.count == 1)
        try await client.eraseLocalData()
        #expect(stage.staged.isEmpty)
    }

    @Test func `files that no operation needs are removed at the next launch`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        client.close()
        let kept = try #require(stage.staged.first)
        let folder = stage.folder.url.appending(path: kept).deletingLastPathComponent()
        // A process ended while it copied a file, before its upload was stored, and after that.
        let left = LocalFile.id(Identifier(at: Timestamp(millisecondsSince1970: 1)))
        for name in [left, left + ".draft"] {
            try Data("bytes".utf8).write(to: folder.appending(path: name))
        }
        let next = try stage.client()
        #expect(next.outbox.pending.map(\.id) == [upload.receipt.id])
        #expect(stage.staged == [kept])
    }

    @Test func `the files that wait are limited`() async throws {
        try SQLiteFile.makePrivateFolder(stage.folder.url)
        let files = StagedFiles(in: stage.folder.url)
        for number in 0..<ClientLimits.stagedFiles {
            let id = Identifier(at: Timestamp(millisecondsSince1970: Int64(number)))
            try files.add(.data(Data("\(number)".utf8)), as: LocalFile.id(id))
        }
        let error = #expect(throws: SanguineError.self) {
            let id = Identifier(at: Timestamp(millisecondsSince1970: 1_000_000))
            try files.add(.data(Data()), as: LocalFile.id(id))
        }
        #expect(error?.asProblem?.code == .storageFull)
        #expect(stage.staged.count == ClientLimits.stagedFiles)
    }

    @Test func `files that wait in memory are limited to less`() throws {
        let files = StagedFiles(in: nil)
        func add(_ number: Int64, bytes: Int64) throws {
            let id = Identifier(at: Timestamp(millisecondsSince1970: number))
            try files.add(.data(Data(count: Int(bytes))), as: LocalFile.id(id))
        }
        let limit = ClientLimits.stagedBytesInMemory
        let large = #expect(throws: SanguineError.self) { try add(1, bytes: limit + 1) }
        #expect(large?.asProblem?.code == .bodyTooLarge)
        #expect(large?.asProblem?.detail.contains("'isInMemory'") == true && files.isEmpty)
        try add(2, bytes: limit - 1)
        let second = #expect(throws: SanguineError.self) { try add(3, bytes: 2) }
        #expect(second?.asProblem?.code == .storageFull)
        try add(4, bytes: 1)
    }

    @Test func `a form, and a file that cannot be read, leave nothing`() async throws {
        let client = try stage.client()
        await #expect(throws: SanguineError.self) {
            try await client.enqueueUpload(of: .multipart([]))
        }
        let gone = URL(filePath: "/no/such/file")
        await #expect(throws: SanguineError.self) {
            try await client.enqueueUpload(of: .file(gone))
        }
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
    }
}
