import Crypto
import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Resumable uploads: their bytes, their file and their space.
@Suite("Resumable uploads", .bounded)
struct UploadTests {
    private let film = UploadWorld.film

    @Test func `a finished upload is the same file as a simple one`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.send(film, to: try await world.create())
        let facts = try #require(upload.file)
        let simple = try await world.authority.addBlob(film, to: world.world.account)
        #expect(simple.facts == facts && !simple.isNew)
        #expect(upload.offset == film.count && upload.pieces.isEmpty)
        // The pieces are gone, and the account pays for the file only.
        #expect(try await world.stored() == [try await UploadWorld.storedFilm()])
        #expect(try await world.takenBytes() == Int64(facts.size) + RecordRow.overheadBytes)
    }

    @Test func `an upload that was cut continues from the bytes that have arrived`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        let cuts = [1, 700_000, UploadPiece.bytes, UploadPiece.bytes + 1, film.count - 1]
        var offset = 0
        for cut in cuts {
            let known = try await world.authority.upload(upload.id, of: world.world.account)
            #expect(known.offset == offset)
            var receiver = try await world.receiver(known)
            try await receiver.receive(Array(film[offset..<cut]))
            await receiver.cut()
            offset = cut
        }
        let last = try await world.authority.upload(upload.id, of: world.world.account)
        #expect(last.offset == film.count - 1)
        let done = try await world.send(film.suffix(1), to: last)
        #expect(done.file?.id == (try await UploadWorld.storedFilm().description))
    }

    @Test func `whole pieces survive a crash in the middle of a request`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        var receiver = try await world.receiver(upload)
        try await receiver.receive(Array(film.prefix(UploadPiece.bytes + 9)))
        // Neither `end` nor `cut` is called.
        let known = try await world.authority.upload(upload.id, of: world.world.account)
        #expect(known.offset == UploadPiece.bytes)
        let done = try await world.send(film.dropFirst(known.offset), to: known)
        #expect(done.file?.id == (try await UploadWorld.storedFilm().description))
    }

    @Test func `small requests do not leave more pieces than large ones`() async throws {
        let world = try await UploadWorld()
        var upload = try await world.create()
        for start in stride(from: 0, to: 60_000, by: 1_000) {
            upload = try await world.send(film[start..<start + 1_000], to: upload)
        }
        #expect(upload.offset == 60_000 && upload.pieces.count == 1)
        #expect(try await world.stored().map(\.description) == upload.pieces)
    }

    @Test func `of two requests at one offset only one adds its bytes`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        var (first, second) = (try await world.receiver(upload), try await world.receiver(upload))
        try await first.receive(Array(film.prefix(1_000)))
        try await second.receive(Array(film.prefix(2_000)))
        #expect(try await second.end().offset == 2_000)
        let late = await problem { () async throws(Problem) in try await first.end() }
        #expect(late?.code == .offsetMismatch)
        #expect(late?.detail.contains("2000") == true)
    }

    @Test func `bytes with a wrong checksum are dropped, also whole pieces`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        let part = film.prefix(UploadPiece.bytes + 500)
        let wrong = "sha1 " + Data(Insecure.SHA1.hash(data: [UInt8]([1]))).base64EncodedString()
        let refused = await problem { () async throws(Problem) in
            try await world.send(part, to: upload, checksum: wrong)
        }
        #expect(refused?.code == .checksumMismatch && refused?.status == 460)
        #expect(try await world.authority.upload(upload.id, of: upload.account).offset == 0)
        #expect(try await world.stored() == [])

        let right = "sha256 " + Data(SHA256.hash(data: part)).base64EncodedString()
        let sent = try await world.send(part, to: upload, checksum: right)
        #expect(sent.offset == part.count)
    }

    @Test func `a repetition that is cut off leaves the bytes of the first request`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create()
        let part = film.prefix(UploadPiece.bytes + 500)
        let checksum = "sha256 " + Data(SHA256.hash(data: part)).base64EncodedString()
        var first = try await world.receiver(upload, checksum: checksum)
        var second = try await world.receiver(upload, checksum: checksum)
        try await first.receive(Array(part))
        try await second.receive(Array(part))
        let sent = try await first.end()
        await second.cut()
        let done = try await world.send(film.dropFirst(part.count), to: sent)
        #expect(done.file?.id == (try await UploadWorld.storedFilm().description))
    }

    @Test(arguments: ["", "md5 AAAA", "sha1", "sha1 AAAA", "sha1 %", "sha256 AAAA"])
    func `a malformed checksum is refused`(text: String) async throws {
        let refused = await problem { () async throws(Problem) in _ = try UploadChecksum(text) }
        #expect(refused?.code == .malformedRequest)
        #expect(refused?.detail.contains("sha1, sha256") == true)
    }

    @Test func `a file that is refused ends its upload and gives the space back`() async throws {
        let world = try await UploadWorld()
        let text = [UInt8](repeating: 65, count: 2_000)
        let upload = try await world.create(text.count)
        #expect(try await world.takenBytes() == 2_000 + RecordRow.overheadBytes)
        let refused = await problem { () async throws(Problem) in
            try await world.send(text, to: upload)
        }
        #expect(refused?.code == .unsupportedMediaType)
        #expect(try await world.takenBytes() == 0)
        #expect(try await world.authority.uploads(of: world.world.account) == [])
        #expect(try await world.stored() == [])
    }

    @Test func `a beginning that is not one of a file is refused with the first piece`()
        async throws
    {
        let world = try await UploadWorld()
        let upload = try await world.create(10 * UploadPiece.bytes)
        var receiver = try await world.receiver(upload)
        let text = [UInt8](repeating: 65, count: UploadPiece.bytes)
        var refusal: Problem?
        do throws(Problem) { try await receiver.receive(text) } catch { refusal = error }
        #expect(refusal?.code == .unsupportedMediaType)
        #expect(try await world.authority.uploads(of: world.world.account) == [])
    }

    @Test func `more bytes than were announced are refused`() async throws {
        let world = try await UploadWorld()
        let upload = try await world.create(1_000)
        let refused = await problem { () async throws(Problem) in
            try await world.send(film.prefix(1_001), to: upload, parts: 600)
        }
        #expect(refused?.code == .bodyTooLarge)
        #expect(try await world.authority.upload(upload.id, of: upload.account).offset == 0)
    }

    @Test func `a failure of the disk at the end keeps the upload`() async throws {
        let storage = WitnessStorage()
        let authority = Authority(storage: storage, keys: SigningKeys(), clock: ManualClock())
        let secret = Base64URL.encode([UInt8](repeating: 3, count: 32))
        let guest = GuestRequest(deviceId: "device-of-a-witness", deviceSecret: secret)
        let account = try await authority.guest(guest).signedIn.account.id
        let bytes = SampleFile.mp4.bytes()
        let upload = try await authority.createUpload(
            length: bytes.count,
            metadata: nil,
            key: nil,
            for: account
        ).upload
        func send() async throws(Problem) -> StoredUpload {
            var receiver = try await UploadReceiver(
                upload,
                checksum: nil,
                authority: authority,
                reserve: { _ in },
                confirm: {}
            )
            try await receiver.receive(bytes)
            return try await receiver.end()
        }
        storage.failFiles(true)
        let failed = await problem { () async throws(Problem) in try await send() }
        #expect(failed?.code == .overloaded)
        #expect(try await authority.upload(upload.id, of: account).offset == 0)
        storage.failFiles(false)
        #expect(try await send().isFinished)
    }
}
