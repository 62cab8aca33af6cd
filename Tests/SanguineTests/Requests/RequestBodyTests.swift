import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Bodies that are not JSON.
@Suite("Bodies of bytes, files and forms", .bounded)
struct RequestBodyTests {
    /// Sends a photo, by the way that a test names.
    private struct SendPhoto: RequestMutation {
        static let name = "photo.send"
        var file: URL?
        var type: String?

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationRequest) async throws {
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

    @Test func `a form is written as RFC 7578 has it`() throws {
        let body = RequestBody.multipart([
            .field("title", "Änne"),
            .data("photo", Data([1, 2]), fileName: "a \"b\"\r\n.jpg", type: "image/jpeg"),
        ])
        let (data, type) = try body.bytes(seed: "x")
        let expected = [
            "--x-0", #"Content-Disposition: form-data; name="title""#,
            "Content-Type: text/plain; charset=utf-8", "", "Änne", "--x-0",
            #"Content-Disposition: form-data; name="photo"; filename="a %22b%22%0D%0A.jpg""#,
            "Content-Type: image/jpeg", "", "\u{1}\u{2}", "--x-0--", "",
        ]

        #expect(String(decoding: data, as: UTF8.self) == expected.joined(separator: "\r\n"))
        #expect(type == "multipart/form-data; boundary=x-0")
    }

    @Test func `no part contains what separates them`() throws {
        let body = RequestBody.multipart([.field("a", "--x-0\r\n--x-1"), .field("b", "x-2")])

        #expect(try body.bytes(seed: "x").type == "multipart/form-data; boundary=x-3")
    }

    @Test func `a mutation sends a form, the same bytes each time`() async throws {
        let (outcome, id, sent) = try await Self.outcome(of: SendPhoto())
        let parts = [
            FormPart.data("photo", Data([0xFF, 0xD8]), fileName: "a.jpg", type: "image/jpeg")
        ]
        let (data, type) = try RequestBody.multipart(parts).bytes(seed: "\(id)")

        #expect(outcome == .applied)
        #expect(sent?.method == "POST")
        #expect(sent?.body == data)
        #expect(sent?.headers["Content-Type"] == type)
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

    @Test func `a file that is gone refuses the mutation, by its name`() async throws {
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

    @Test func `what is too large is refused before it is sent`() async throws {
        let large = Data(count: ClientLimits.requestBodyBytes + 1)
        let file = try Self.file(large)
        defer { try? FileManager.default.removeItem(at: file) }
        let half = FormPart.data("a", Data(count: large.count / 2), fileName: "a")
        for body in [RequestBody.data(large), .file(file), .multipart([half, half])] {
            let error = #expect(throws: SanguineError.self) { try body.bytes(seed: "x") }
            #expect(error?.code == "body_too_large")
            #expect(error?.errorClass == .refused)
        }
    }
}
