import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Bodies that are not JSON.
@Suite("Byte, file and form bodies", .bounded)
struct RequestBodyTests {
    /// Sends a photo as a form or as a file.
    private struct SendPhoto: RemoteMutation {
        static let name = "photo.send"
        var file: URL?
        var type: String?

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationContext) async throws {
            let photo = Data([0xFF, 0xD8])
            let headers = type.map { ["content-type": $0] } ?? [:]
            if let file {
                try await request.send("PUT", "songs/a", .file(file), headers: headers)
            } else {
                let parts = [FormPart.data("photo", photo, fileName: "a.jpg", type: "image/jpeg")]
                _ = try await request.post("songs/a", .multipart(parts), as: Song.self)
            }
        }
    }

    private let folder = TemporaryFolder()

    private func prepared(_ body: RequestBody, seed: String = "x") async throws -> PreparedBody {
        try await PreparedBody(body, seed: seed, in: UploadSpool(in: folder.url))
    }

    private static func outcome(
        of mutation: SendPhoto
    ) async throws -> (outcome: Receipt.Outcome, id: Identifier, sent: TransportRequest?) {
        let fixture = SongFixture()
        let client = try fixture.client { $0.register(SendPhoto.self) }
        defer { client.close() }
        let receipt = try client.perform(mutation)
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }
        return (outcome, receipt.id, fixture.writes.first)
    }

    private static func file(_ bytes: Data) throws -> URL {
        let url = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try bytes.write(to: url)
        return url
    }

    @Test func `a form is encoded as RFC 7578 specifies`() async throws {
        let body = RequestBody.multipart([
            .field("title", "Änne"),
            .data("photo", Data([1, 2]), fileName: "a \"b\"\r\n.jpg", type: "image/jpeg"),
        ])
        let prepared = try await prepared(body)
        let data = try #require(prepared.data)
        let expected = [
            "--x-0", #"Content-Disposition: form-data; name="title""#,
            "Content-Type: text/plain; charset=utf-8", "", "Änne", "--x-0",
            #"Content-Disposition: form-data; name="photo"; filename="a %22b%22%0D%0A.jpg""#,
            "Content-Type: image/jpeg", "", "\u{1}\u{2}", "--x-0--", "",
        ]

        #expect(String(decoding: data, as: UTF8.self) == expected.joined(separator: "\r\n"))
        #expect(prepared.type == "multipart/form-data; boundary=x-0")
    }

    @Test func `no part contains the boundary`() async throws {
        let body = RequestBody.multipart([.field("a", "--x-0\r\n--x-1"), .field("b", "x-2")])

        #expect(try await prepared(body).type == "multipart/form-data; boundary=x-3")
    }

    @Test func `a mutation sends a form with the same bytes each time`() async throws {
        let (outcome, id, sent) = try await Self.outcome(of: SendPhoto())
        let parts = [
            FormPart.data("photo", Data([0xFF, 0xD8]), fileName: "a.jpg", type: "image/jpeg")
        ]
        let prepared = try await prepared(.multipart(parts), seed: "\(id)")

        #expect(outcome == .applied)
        #expect(sent?.method == "POST")
        #expect(sent?.body == prepared.data)
        #expect(sent?.headers["Content-Type"] == prepared.type)
        #expect(sent?.headers["Idempotency-Key"] == "\(id)")
    }

    @Test(arguments: [nil, "image/png"])
    func `a mutation sends a file`(type: String?) async throws {
        let file = try Self.file(Data([1, 2, 3]))
        defer { try? FileManager.default.removeItem(at: file) }
        let (outcome, _, sent) = try await Self.outcome(of: SendPhoto(file: file, type: type))
        let types = sent?.headers.filter { $0.key.lowercased() == "content-type" }.map(\.value)

        #expect(outcome == .applied)
        #expect(sent?.body == Data([1, 2, 3]))
        #expect(types == [type ?? "application/octet-stream"])
    }

    @Test func `a missing file refuses the mutation and names the file`() async throws {
        let file = URL(filePath: "/nowhere/photo.jpg")
        let (outcome, _, sent) = try await Self.outcome(of: SendPhoto(file: file))
        guard case .refused(let problem) = outcome else {
            Issue.record("\(outcome)")
            return
        }

        #expect(problem.code == .malformedBody)
        #expect(problem.detail.contains("'photo.jpg'"))
        #expect(sent == nil)
    }

    @Test func `a body that is too large is refused before it is sent`() async throws {
        let large = Data(count: ClientLimits.requestBodyBytes + 1)
        let huge = try Self.file(Data())
        defer { try? FileManager.default.removeItem(at: huge) }
        // A sparse file.
        let handle = try FileHandle(forWritingTo: huge)
        try handle.truncate(atOffset: UInt64(ClientLimits.uploadBytes) + 1)
        try handle.close()
        let half = FormPart.data("a", Data(count: large.count / 2), fileName: "a")
        let bodies = [
            RequestBody.data(large), .multipart([half, half]), .file(huge),
            .multipart([.file("a", at: huge)]),
        ]
        for body in bodies {
            let error = await #expect(throws: SanguineError.self) { try await prepared(body) }
            #expect(error?.code == "body_too_large")
            #expect(error?.errorClass == .refused)
        }
    }

    @Test func `a form with files is assembled on disk and removed afterwards`() async throws {
        // Longer than one read, with the boundary text across two reads.
        let content = Data(count: 262_141) + Data("x-0".utf8) + Data(count: 300_000)
        let file = try Self.file(content)
        defer { try? FileManager.default.removeItem(at: file) }
        let parts = [FormPart.field("a", "b"), .file("photo", at: file, fileName: "p")]
        let spool = UploadSpool(in: folder.url)
        let prepared = try await PreparedBody(.multipart(parts), seed: "x", in: spool)
        let inMemory = try await self.prepared(
            .multipart([.field("a", "b"), .data("photo", content, fileName: "p")])
        )
        let spooled = try #require(prepared.file)

        #expect(prepared.data == nil)
        #expect(prepared.type == "multipart/form-data; boundary=x-1")
        #expect(inMemory.type == prepared.type)
        #expect(try Data(contentsOf: spooled) == inMemory.data)
        let mode =
            try FileManager.default.attributesOfItem(
                atPath: spooled.deletingLastPathComponent().path
            )[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o700)
        prepared.remove()
        #expect(!FileManager.default.fileExists(atPath: spooled.path))
    }

    @Test func `files of a dead process are removed and those of a live one are kept`()
        async throws
    {
        let file = try Self.file(Data([1]))
        defer { try? FileManager.default.removeItem(at: file) }
        let living = UploadSpool(in: folder.url)
        let form = RequestBody.multipart([.file("a", at: file)])
        let prepared = try await PreparedBody(form, seed: "x", in: living)
        let root = folder.url.appending(path: UploadSpool.name)
        let dead = root.appending(path: "dead")
        try FileManager.default.createDirectory(at: dead, withIntermediateDirectories: true)
        try Data([1]).write(to: dead.appending(path: "form"))
        try Data().write(to: root.appending(path: "dead.lock"))

        UploadSpool(in: folder.url).removeLeftovers()

        let left = try FileManager.default.contentsOfDirectory(atPath: root.path).sorted()
        let run = try #require(prepared.file).deletingLastPathComponent().lastPathComponent
        #expect(left == [run, "\(run).lock"].sorted())
        withExtendedLifetime(living) {}
    }

    @Test func `a spool works after local data was erased`() async throws {
        let file = try Self.file(Data([1]))
        defer { try? FileManager.default.removeItem(at: file) }
        let spool = UploadSpool(in: folder.url)
        let form = RequestBody.multipart([.file("a", at: file)])
        _ = try await PreparedBody(form, seed: "x", in: spool)
        _ = UserFolders(folder.url).erase(after: nil)
        let root = folder.url.appending(path: UploadSpool.name)
        #expect(!FileManager.default.fileExists(atPath: root.path))
        let prepared = try await PreparedBody(form, seed: "x", in: spool)

        #expect(try #require(prepared.file).readableFileSize ?? 0 > 1)
    }
}
