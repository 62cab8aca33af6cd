import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Files that are attached to calls.
@Suite("Uploaded files", .bounded)
struct UploadedFileTests {
    struct Describe: FunctionCall {
        static let name = "describe"
        static let rules = FunctionRules(price: .fixed(1), attachments: AttachmentRules(count: 1))
        typealias Output = String
        var input = ["question": "What is this?"]
        var attachments: [String]
    }

    let fixture = ClientFixture()
    let path = "/v1/blobs"
    let photo = RequestBody.data(Data(SampleFile.jpeg.bytes()), type: "image/jpeg")
    var authority: StagedAuthority { fixture.authority }

    init() { authority.server.serve(Describe.self) { _ in "A house." } }

    @Test func `equal files have the same id, from memory or from disk`() async throws {
        try await ClientFixture.withFolder { folder in
            let client = try await fixture.clientWithBalance()
            let first = try await client.upload(photo)
            #expect(first.type == "image/jpeg" && first.width == 30 && first.id.count == 64)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let url = folder.appending(path: "photo.jpg")
            try Data(SampleFile.jpeg.bytes()).write(to: url)
            #expect(try await client.upload(.file(url, type: "image/jpeg")) == first)
        }
    }

    @Test func `a call attaches its files, and too many are refused`() async throws {
        let client = try await fixture.clientWithBalance()
        let id = try await client.upload(photo).id
        #expect(try await client.call(Describe(attachments: [id])) == "A house.")
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(Describe(attachments: [id, id]))
        }
        #expect(error?.asProblem?.code == .invalidContent)
        _ = try await client.refresh(.balance)
        #expect(client.cached(.balance)?.available == 99 && client.cached(.balance)?.held == 0)
    }

    @Test func `a quote includes the files`() async throws {
        let client = try await fixture.clientWithBalance()
        let id = try await client.upload(photo).id
        #expect(try await client.quote(Describe(attachments: [id])).hold == 1)
        let error = await #expect(throws: SanguineError.self) {
            try await client.quote(Describe(attachments: [String(repeating: "0", count: 64)]))
        }
        #expect(error?.asProblem?.code == .invalidContent)
    }

    @Test func `a call without files does not mention them`() async throws {
        let client = try await fixture.clientWithBalance()
        _ = try await client.call(Describe(attachments: []))
        let body = try #require(authority.requests("/v1/functions/describe").first?.body)
        #expect(!String(decoding: body, as: UTF8.self).contains("attachments"))
    }

    // MARK: - Refused before the upload

    /// Needs a file and a unit of a quota.
    struct Interpret: FunctionCall {
        static let name = "interpret"
        static let rules = FunctionRules(
            price: .quota("readings"),
            attachments: AttachmentRules(count: 2, minimum: 1, bytes: 5_000, types: ["image/jpeg"])
        )
        typealias Output = String
        var input = ["question": "What is this?"]
        var attachments: [String]
    }

    private func refusal(
        _ client: SanguineClient,
        _ file: RequestBody,
        besides others: [BlobFacts] = []
    ) async throws -> Problem? {
        authority.server.serve(Interpret.self) { _ in "A sign." }
        let before = authority.count(path)
        let error = await #expect(throws: SanguineError.self) {
            try await client.upload(file, for: Interpret.self, besides: others)
        }
        #expect(authority.count(path) == before, "The file was sent.")
        return error?.asProblem
    }

    @Test func `a file that its call could not attach is refused before it is sent`() async throws {
        let client = try await fixture.clientWithBalance()
        let png = RequestBody.data(Data(SampleFile.png.bytes()), type: "image/png")
        #expect(try await refusal(client, png)?.code == .invalidContent)
        let large = RequestBody.data(Data(count: 5_001), type: "image/jpeg")
        #expect(try await refusal(client, large)?.detail.contains("5001") == true)
        let others = ["a", "b"].map { BlobFacts(id: $0, size: 9, type: "image/jpeg") }
        #expect(try await refusal(client, photo, besides: others)?.code == .invalidContent)
    }

    @Test func `a file for a call that cannot be paid for is refused before it is sent`()
        async throws
    {
        let client = try await fixture.clientWithBalance()
        authority.server.serve(Interpret.self) { _ in "A sign." }
        let id = try await client.upload(photo, for: Interpret.self).id
        for _ in 0..<3 { _ = try await client.call(Interpret(attachments: [id])) }
        let exhausted = try await refusal(client, photo)
        #expect(exhausted?.code == .quotaExhausted && exhausted?.resetsAt != nil)
        #expect(exhausted?.lifts == ["premium"])
        authority.server.serve(Describe.self, price: 101) { _ in "A house." }
        let sent = authority.count(path)
        let poor = await #expect(throws: SanguineError.self) {
            try await client.upload(photo, for: Describe.self)
        }
        #expect(poor?.asProblem?.code == .insufficientTokens && poor?.asProblem?.required == 101)
        #expect(authority.count(path) == sent)
    }

    @Test func `a call without the files that its function needs is refused`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.server.serve(Interpret.self) { _ in "A sign." }
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(Interpret(attachments: []))
        }
        #expect(error?.asProblem?.code == .invalidContent)
    }

    @Test func `a failed upload is retried, and its progress starts over`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.refuse(path, Problem(.overloaded, "A test's refusal."))
        let reported = Mutex<[Double]>([])
        let facts = try await client.upload(photo) { progress in
            reported.withLock { $0.append(progress.fraction) }
        }
        #expect(facts.type == "image/jpeg" && authority.count(path) == 2)
        #expect(reported.withLock { $0 }.last == 1)
    }

    @Test func `an unknown file type is refused at once`() async throws {
        let client = try await fixture.clientWithBalance()
        let error = await #expect(throws: SanguineError.self) {
            try await client.upload(.data(Data("text".utf8), type: "image/jpeg"))
        }
        #expect(error?.asProblem?.code == .unsupportedMediaType && authority.count(path) == 1)
    }

    @Test func `a form is refused before anything is sent`() async throws {
        let client = try await fixture.clientWithBalance()
        let refusal = await #expect(throws: SanguineError.self) {
            try await client.upload(.multipart([.field("a", "b")]))
        }
        #expect(refusal?.code == "invalid_declaration")
        #expect(authority.count(path) == 0)
    }

    @Test func `an upload that is cancelled before its retry ends`() async throws {
        let client = try await fixture.clientWithBalance()
        authority.stop(path, at: .request)
        let upload = Task { try await client.upload(photo) }
        try await authority.reached(path, at: .request)
        upload.cancel()
        authority.clear(path, at: .request)
        await #expect(throws: SanguineError.cancelled) { try await upload.finished() }
    }
}
