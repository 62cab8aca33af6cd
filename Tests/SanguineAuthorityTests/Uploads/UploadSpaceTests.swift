import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The number, the space and the expiry of resumable uploads.
@Suite("Space of resumable uploads", .bounded)
struct UploadSpaceTests {
    private let film = UploadWorld.film

    @Test func `an unfinished upload counts as its whole file`() async throws {
        let world = try await UploadWorld { $0.bytesPerAccount = 10_000 }
        let upload = try await world.create(6_000)
        #expect(try await world.takenBytes() == 6_000 + RecordRow.overheadBytes)
        let second = await problem { () async throws(Problem) in try await world.create(6_000) }
        #expect(second?.code == .storageFull)
        let simple = await problem { () async throws(Problem) in
            try await world.authority.addBlob(
                SampleFile.mp4.bytes(filler: 6_000),
                to: world.world.account
            )
        }
        #expect(simple?.code == .storageFull)
        try await world.authority.removeUpload(upload.id, of: upload.account)
        #expect(try await world.takenBytes() == 0)
        #expect(try await world.create(6_000).id != upload.id)
    }

    @Test func `an account has a limited number of unfinished uploads`() async throws {
        let world = try await UploadWorld()
        var first: StoredUpload?
        for _ in 0..<WireLimits.uploadsPerAccount {
            let upload = try await world.create(1_000)
            first = first ?? upload
        }
        let refused = await problem { () async throws(Problem) in try await world.create(1_000) }
        #expect(refused?.code == .storageFull)
        #expect(refused?.detail.contains("GET /v1/uploads") == true)
        // A finished one makes room.
        let upload = try #require(first)
        let bytes = SampleFile.mp4.bytes()
        try await world.authority.removeUpload(upload.id, of: upload.account)
        _ = try await world.send(bytes, to: try await world.create(bytes.count))
        let last = try await world.create(1_000)
        #expect(last.slot == upload.slot)
        #expect(try await world.authority.uploads(of: upload.account).count == 16)
    }

    @Test func `the same key finds the same upload`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create(1_000, metadata: "filename YQ==", key: "k")
        #expect(try await world.create(1_000, metadata: "filename YQ==", key: "k").id == upload.id)
        let other = await problem { () async throws(Problem) in
            try await world.create(1_001, metadata: "filename YQ==", key: "k")
        }
        #expect(other?.code == .idempotencyMismatch)
        #expect(try await world.create(1_000).id != upload.id)
    }

    @Test func `a file that was deleted can be uploaded again with the same key`() async throws {
        let world = try await UploadWorld()
        let bytes = SampleFile.mp4.bytes()
        let done = try await world.send(bytes, to: try await world.create(bytes.count, key: "k"))
        #expect(try await world.create(bytes.count, key: "k").file == done.file)
        let id = try #require(BlobID(done.file?.id ?? ""))
        try await world.authority.removeBlob(id, of: world.world.account)
        let again = try await world.create(bytes.count, key: "k")
        #expect(again.id != done.id && again.offset == 0)
    }

    @Test func `an upload expires a day after its last byte`() async throws {
        let world = try await UploadWorld()
        let account = world.world.account
        let upload = try await world.create()
        world.world.clock.advance(by: .seconds(23 * 3_600))
        try await world.send(film.prefix(2_000_000), to: upload)
        world.world.clock.advance(by: .seconds(23 * 3_600))
        // Its pieces have no owner and are old, but are needed.
        try await world.authority.sweep()
        #expect(try await world.stored().count == 2)
        #expect(try await world.authority.upload(upload.id, of: account).offset == 2_000_000)

        world.world.clock.advance(by: .seconds(3_600))
        let gone = await problem { () async throws(Problem) in
            try await world.authority.upload(upload.id, of: account)
        }
        #expect(gone?.code == .notFound)
        try await world.authority.sweep()
        #expect(try await world.stored() == [])
        #expect(try await world.takenBytes() == 0)
        #expect(world.authority.blobSweep.removed.uploads == 1)
    }

    @Test func `pieces that a crash left behind are removed after an hour`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        try await world.send(film.prefix(1_000), to: upload)
        let line = UploadPiece(of: upload, from: .numbered(1)).line
        let lost = line + [1, 2, 3]
        let id = BlobID(of: lost)
        try await world.world.storage.blobs.keep(lost, as: id, at: world.world.clock.now())
        world.world.clock.advance(by: .seconds(3_601))
        try await world.authority.sweep()
        #expect(try await !world.stored().contains(id))
        #expect(try await world.stored().count == 1)
    }

    @Test func `a piece is not readable as a file`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        let sent = try await world.send(film.prefix(1_000), to: upload)
        let piece = try #require(sent.pieceIDs.first)
        let refused = await problem { () async throws(Problem) in
            try await world.authority.readableBlob(piece, by: upload.account)
        }
        #expect(refused?.code == .notFound)
    }

    @Test func `an upload whose bytes were lost begins again`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        let sent = try await world.send(film.prefix(1_000), to: upload)
        // As after a copy of the data was restored without its files.
        await world.authority.removePieces(sent.pieceIDs)
        let gone = await problem { () async throws(Problem) in
            try await world.send(film.dropFirst(1_000), to: sent)
        }
        #expect(gone?.code == .notFound)
        #expect(try await world.takenBytes() == 0)
    }

    @Test(arguments: [
        "", "0", "0-", "16-0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa", "00-x",
        "-1-0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa", "+1-0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa",
        "1-0199F3C8-2F6B-7C1E-9A54-3D2B8E07F6AA", "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa",
    ])
    func `other texts are no id`(text: String) {
        #expect(UploadID(text) == nil)
    }

    @Test func `a piece names its upload`() throws {
        let account = try #require(Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"))
        let id = try #require(UploadID("15-\(account)"))
        let piece = UploadPiece(account: account, upload: id, request: account)
        #expect(piece.line.count <= UploadPiece.lineBytes)
        #expect(UploadPiece(beginningOf: piece.line + [0, 255]) == piece)
        #expect(UploadPiece(beginningOf: Array(piece.line.dropLast())) == nil)
        #expect(UploadPiece(beginningOf: [0xFF, 0xD8]) == nil)
    }

    @Test func `a time is written as a date of HTTP and read back`() throws {
        let moment = try #require(HTTPDate.moment("Sun, 06 Nov 1994 08:49:37 GMT"))
        #expect(HTTPDate.text(moment) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(
            HTTPDate.text(Timestamp(millisecondsSince1970: -1)) == "Wed, 31 Dec 1969 23:59:59 GMT"
        )
    }
}
