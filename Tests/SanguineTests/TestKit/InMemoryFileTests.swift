import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Files in the authority in memory, served as a server would serve them.
@Suite("In-memory authority: files", .bounded)
struct InMemoryFileTests {
    private let authority = InMemoryAuthority()

    private func send(
        _ method: String,
        _ path: String,
        _ body: [UInt8]? = nil,
        fields: [String: String] = [:],
        as account: Identifier? = nil
    ) async throws -> TransportResponse {
        let token = await authority.accessToken(for: account ?? authority.user)
        let url = try #require(URL(string: AuthorityCaller.server + path))
        var request = TransportRequest(method: method, url: url)
        request.headers = fields.merging(["Authorization": "Bearer \(token)"]) { _, own in own }
        request.body = body.map { Data($0) }
        return try await authority.send(request)
    }

    @Test func `a file is stored and can be read in full by its account`() async throws {
        let png = SampleFile.png.bytes(filler: 200_000)
        let answer = try await send("POST", "/v1/blobs", png)
        #expect(answer.status == 201)
        let facts = try JSONDecoder().decode(BlobFacts.self, from: answer.body)
        #expect(facts.type == "image/png" && facts.width == 40)
        #expect(try await send("POST", "/v1/blobs", png).status == 200)

        let read = try await send("GET", "/v1/blobs/\(facts.id)")
        #expect(read.status == 200 && read.body.count == facts.size)
        #expect(Array(read.body) == png)
        #expect(read.headers["content-type"] == "image/png")
        #expect(try await send("HEAD", "/v1/blobs/\(facts.id)").body.isEmpty)
        let tag = ["If-None-Match": "\"\(facts.id)\""]
        #expect(try await send("GET", "/v1/blobs/\(facts.id)", fields: tag).status == 304)
        let stranger = authority.addAccount()
        #expect(try await send("GET", "/v1/blobs/\(facts.id)", as: stranger).status == 404)
    }

    @Test func `the kit rejects the same requests as a server`() async throws {
        #expect(try await send("POST", "/v1/blobs", [1, 2, 3]).status == 415)
        let large = [UInt8](repeating: 0, count: WireLimits.blobBytes + 1)
        #expect(try await send("POST", "/v1/blobs", large).status == 413)
        #expect(try await send("GET", "/v1/blobs/none").status == 404)
        #expect(try await send("GET", "/v1/blobs/none?w=9").status == 400)
    }
}
