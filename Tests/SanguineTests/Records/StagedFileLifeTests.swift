import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The ends of files that wait in the outbox: cancelled uploads, other users and full disks.
@Suite("Staged files", .bounded)
struct StagedFileLifeTests {
    private let stage = GalleryStage()

    // MARK: - Cancelled uploads

    @Test func `a record that is withdrawn while its file uploads cancels the upload`()
        async throws
    {
        let client = try stage.client()
        stage.network.hold(.requests)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        try await stage.waitForHeldUpload()
        #expect(try receipt.withdraw())
        #expect(try await upload.receipt.outcome == .withdrawn)
        try await eventually("the cancelled upload") {
            !stage.network.held.contains { $0.url.path() == GalleryStage.uploadPath }
        }
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
        stage.network.release()
        try await client.synchronize()
        #expect(stage.uploads == 0 && stage.photo("a") == nil)
    }

    @Test func `a withdrawn record whose file has arrived leaves nothing on the device`()
        async throws
    {
        let client = try stage.client()
        stage.network.hold(.answers)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        try await stage.waitForHeldUpload()
        #expect(try receipt.withdraw())
        stage.network.release()
        try await client.synchronize()
        #expect(client.fileID(of: upload.id) == nil && stage.photo("a") == nil)
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
        client.close()
        let next = try stage.client()
        #expect(next.outbox.pending.isEmpty && next.outbox.refused.isEmpty)
    }

    @Test func `a record that is deleted while its file uploads is gone at the end`()
        async throws
    {
        let client = try stage.client()
        stage.network.hold(.requests)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let added = try client.addPhoto("a", upload.id)
        try await stage.waitForHeldUpload()
        let removed = try client.perform(RemovePhoto(id: .of("a")))
        #expect(client.shownPhoto("a") == nil && stage.staged.count == 1)
        stage.network.release()
        try await client.synchronize()
        #expect(try await added.outcome == .applied)
        #expect(try await removed.outcome == .applied)
        #expect(stage.photo("a") == nil && client.shownPhoto("a") == nil)
        #expect(stage.uploads == 1 && stage.staged.isEmpty && client.outbox.pending.isEmpty)
    }

    @Test func `an undo while the file uploads sends neither the file nor the record`()
        async throws
    {
        let client = try stage.client()
        stage.network.hold(.requests)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let added = try client.addPhoto("a", upload.id)
        try await stage.waitForHeldUpload()
        try client.perform(RemovePhoto(id: .of("a"), isUndo: true))
        #expect(try await added.outcome == .withdrawn)
        #expect(try await upload.receipt.outcome == .withdrawn)
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
        stage.network.release()
        try await client.synchronize()
        #expect(stage.uploads == 0 && stage.pushed.isEmpty)
    }

    @Test func `an upload that nothing names is discarded while it is sent`() async throws {
        let client = try stage.client()
        stage.network.hold(.requests)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try await stage.waitForHeldUpload()
        try client.outbox.discard(upload.receipt.id)
        #expect(try await upload.receipt.outcome == .withdrawn)
        #expect(stage.staged.isEmpty && client.outbox.pending.isEmpty)
        stage.network.release()
        try await client.synchronize()
        #expect(stage.uploads == 0)
    }

    // MARK: - Lost responses and ends of the process

    @Test func `a file whose response is lost is sent again, under the same id`() async throws {
        stage.decide { $0.url.path() == GalleryStage.uploadPath ? .unanswered : .served }
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        let receipt = try client.addPhoto("a", upload.id)
        try await eventually("the file arrived") { stage.uploads == 1 }
        stage.decide { _ in .served }
        try await stage.delay.advancing { try await client.synchronize() }
        #expect(try await receipt.outcome == .applied)
        #expect(stage.photo("a")?.count == 64 && stage.photo("a") == client.fileID(of: upload.id))
        #expect(stage.pushed.count == 1 && stage.staged.isEmpty)
    }

    @Test func `an end of the process between file and record sends neither twice`()
        async throws
    {
        stage.decide { $0.isPush ? .lost : .served }
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        try await eventually("the uploaded file") { client.fileID(of: upload.id) != nil }
        let photo = client.fileID(of: upload.id)
        client.close()
        #expect(stage.photo("a") == nil)

        stage.decide { _ in .served }
        let next = try stage.client()
        #expect(next.shownPhoto("a") == photo)
        try await stage.delay.advancing { try await next.synchronize() }
        #expect(stage.photo("a") == photo && stage.uploads == 1)
        #expect(next.outbox.pending.isEmpty && stage.staged.isEmpty)
    }

    // MARK: - Other users

    @Test func `the files of a user who has left are not sent for another one`() async throws {
        let account = try #require(stage.authorizer.account)
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        stage.authorizer.change(to: Identifier(at: Timestamp(millisecondsSince1970: 1)), in: client)
        stage.connectivity.connect()
        try await client.synchronize()
        #expect(stage.uploads == 0 && stage.pushed.isEmpty && stage.staged.count == 1)
        let error = #expect(throws: SanguineError.self) { try client.addPhoto("b", upload.id) }
        #expect(error?.asProblem?.code == .notFound)

        stage.authorizer.change(to: account, in: client)
        try await client.synchronize()
        #expect(stage.uploads == 1 && stage.staged.isEmpty)
        #expect(client.shownPhoto("a")?.count == 64)
    }

    @Test func `a sign-out that keeps nothing removes the files`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        try client.addPhoto("a", upload.id)
        #expect(stage.staged.count == 1)
        await client.signOut(keeping: .nothing)
        #expect(stage.staged.isEmpty && client.outbox.ofOthers == 0)
    }

    // MARK: - Disks

    @Test func `a full disk refuses the file, and leaves nothing of it`() async throws {
        stage.connectivity.disconnect()
        let client = try stage.client()
        // If a file has the name of the folder, nothing can be written there.
        let obstacle = stage.folder.user.appending(path: OutboxFile.name + "-files")
        try FileManager.default.createDirectory(
            at: stage.folder.user,
            withIntermediateDirectories: true
        )
        try Data().write(to: obstacle)
        let error = await #expect(throws: SanguineError.self) {
            try await client.enqueueUpload(of: GalleryStage.photo())
        }
        let isOfDisk = if case .store? = error { true } else { false }
        #expect(isOfDisk, "\(String(describing: error))")
        #expect(client.outbox.pending.isEmpty && stage.staged.isEmpty)
        try FileManager.default.removeItem(at: obstacle)
        let upload = try await client.enqueueUpload(of: GalleryStage.photo())
        #expect(client.outbox.pending.map(\.id) == [upload.receipt.id] && stage.staged.count == 1)
    }

    @Test func `a file that cannot be read in the middle of its upload is sent again`()
        async throws
    {
        let isReadable = WatchedState(true)
        stage.decide { [weak stage] request in
            guard request.method == "PATCH", isReadable.value, let stage,
                let name = stage.staged.first
            else { return .served }
            isReadable.withLock { $0 = false }
            // The client reads no further part of a file that seems to have changed.
            try? FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 1)],
                ofItemAtPath: stage.folder.url.appending(path: name).path
            )
            return .served
        }
        let client = try stage.client()
        let film = Data(SampleFile.mp4.bytes(filler: 5_000_000))
        let upload = try await client.enqueueUpload(of: .data(film, type: "video/mp4"))
        let receipt = try client.addPhoto("a", upload.id)
        let outcome = try await stage.delay.advancing { try await receipt.outcome }
        #expect(outcome == .applied && !isReadable.value)
        #expect(stage.photo("a") == client.fileID(of: upload.id))
        #expect(client.outbox.refused.isEmpty && stage.staged.isEmpty)
    }

    @Test func `a file is not written for a user who has left`() throws {
        let folder = stage.folder.url.appending(path: "gone")
        let files = StagedFiles(in: folder)
        #expect(throws: SanguineError.self) {
            let id = Identifier(at: Timestamp(millisecondsSince1970: 1))
            try files.add(.data(Data("bytes".utf8)), as: LocalFile.id(id))
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }
}

/// Files of users whose account was not known when they left.
@Suite("Unclaimed files", .bounded)
struct UnclaimedFileTests {
    private let stage = GalleryStage(account: nil)

    /// What a user without an account has left behind.
    private struct Left {
        let client: SanguineClient
        /// A file that a mutation for another backend names.
        let shared: QueuedUpload
    }

    /// Leaves a file for a mutation of another backend and another one for a record; the record
    /// names the first file as well if it is in both.
    private func left(isInBoth: Bool = false) async throws -> Left {
        stage.connectivity.disconnect()
        let client = try stage.client()
        let shared = try await client.enqueueUpload(of: GalleryStage.photo(1))
        let own = try await client.enqueueUpload(of: GalleryStage.photo(2))
        try client.perform(SharePhoto(photo: shared.id))
        try client.addPhoto("a", isInBoth ? "\(shared.id) \(own.id)" : own.id)
        stage.authorizer.change(to: TestAuthorizer.account, in: client)
        #expect(client.outbox.unclaimed == 1 && client.outbox.pending.isEmpty)
        #expect(stage.staged.count == 2)
        return Left(client: client, shared: shared)
    }

    @Test func `a claimed operation takes the upload of its file along, and no other`()
        async throws
    {
        let left = try await left()
        let client = left.client
        try client.outbox.claim()
        #expect(client.outbox.pending.map(\.name) == [FileUploadDriver.name, SharePhoto.name])
        #expect(client.outbox.unclaimed == 0 && client.outbox.ofOthers == 2)
        #expect(stage.staged.count == 2)
        stage.connectivity.connect()
        try await client.synchronize()
        let photo = try #require(client.fileID(of: left.shared.id))
        #expect(stage.shared == [#"{"photo":"\#(photo)"}"#])
        #expect(stage.uploads == 1 && stage.pushed.isEmpty && stage.staged.count == 1)
    }

    @Test func `a file that other operations name as well stays with them`() async throws {
        let client = try await left(isInBoth: true).client
        try client.outbox.claim()
        #expect(client.outbox.ofOthers == 3 && stage.staged.count == 3)
        stage.connectivity.connect()
        try await client.synchronize()
        #expect(stage.shared.count == 1 && stage.uploads == 1 && stage.staged.count == 2)
    }

    @Test func `discarded operations remove the files that only they name`() async throws {
        let client = try await left().client
        try client.outbox.discardUnclaimed()
        #expect(client.outbox.unclaimed == 0 && client.outbox.ofOthers == 2)
        #expect(stage.staged.count == 1)
    }
}
