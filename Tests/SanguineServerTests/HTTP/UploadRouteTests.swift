import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Resumable uploads over HTTP", .bounded)
struct UploadRouteTests {
    private static let film = SampleFile.mp4.bytes(filler: 2_500_000)
    private var film: [UInt8] { Self.film }

    @Test func `a file is uploaded in parts and found by its id`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let created = try await guest.tus(
                "POST",
                "/v1/uploads",
                ["Upload-Length": "\(film.count)", "Upload-Metadata": "filename YQ==,private"]
            )
            #expect(created.status == 201 && created["Tus-Resumable"] == "1.0.0")
            let path = try #require(created["Location"])
            let first = try await guest.patch(path, Array(film.prefix(1_500_000)), at: 0)
            #expect(first.status == 204 && first["Upload-Offset"] == "1500000")
            #expect(first["Upload-Expires"]?.hasSuffix(" GMT") == true)

            let head = try await guest.tus("HEAD", path)
            #expect(head.status == 200 && head.bytes.isEmpty)
            #expect(head["Upload-Offset"] == "1500000")
            #expect(head["Upload-Length"] == "\(film.count)")
            #expect(head["Upload-Metadata"] == "filename YQ==,private")
            #expect(head["Cache-Control"] == "no-store")
            let late = try await guest.patch(path, [1], at: 0)
            #expect(late.status == 409 && late.code == "offset_mismatch")
            #expect(late["Upload-Offset"] == "1500000" && late["Tus-Resumable"] == "1.0.0")
            // Proxies and some clients send such requests; they change nothing.
            let empty = try await guest.patch(path, [], at: 1_500_000)
            #expect(empty.status == 204 && empty["Upload-Offset"] == "1500000")

            let last = try await guest.patch(path, Array(film.dropFirst(1_500_000)), at: 1_500_000)
            #expect(last.status == 204 && last["Upload-Offset"] == "\(film.count)")
            let id = try #require(last["Sanguine-Blob"])
            let status = try await guest.get(path).decode(UploadStatus.self)
            #expect(status.file?.id == id && status.file?.type == "video/mp4")
            #expect(try await guest.upload(film).decode(BlobFacts.self) == status.file)
        }
    }

    @Test func `the server says what it supports without a token`() async throws {
        try await LiveServer.with {
            $0.settings.limits.blobBytes = 2_000
        } _: { server in
            let reply = try await server.send("OPTIONS", "/v1/uploads")
            #expect(reply.status == 204)
            #expect(reply["Tus-Version"] == "1.0.0" && reply["Tus-Resumable"] == "1.0.0")
            #expect(reply["Tus-Max-Size"] == "2000")
            #expect(reply["Tus-Extension"] == "creation,termination,checksum,expiration")
            #expect(reply["Tus-Checksum-Algorithm"] == "sha1,sha256")
        }
    }

    @Test func `requests that the protocol does not permit are refused`() async throws {
        try await LiveServer.with {
            $0.settings.limits.blobBytes = 2_000
        } _: { server in
            let guest = try await server.guest()
            let old = try await guest.tus(
                "POST",
                "/v1/uploads",
                ["Upload-Length": "9", "Tus-Resumable": "0.2.2"]
            )
            #expect(old.status == 412 && old["Tus-Version"] == "1.0.0")
            #expect(old.code == "tus_version_unsupported")
            let refusals: [([String: String], String)] = [
                ([:], "malformed_request"), (["Upload-Length": "-1"], "malformed_request"),
                (["Upload-Length": "0"], "malformed_request"),
                (["Upload-Defer-Length": "1"], "malformed_request"),
                (["Upload-Length": "9", "Upload-Metadata": "a %"], "malformed_request"),
                (["Upload-Length": "9", "Upload-Metadata": "a,a"], "malformed_request"),
                (["Upload-Length": "2001"], "body_too_large"),
            ]
            for (headers, code) in refusals {
                let reply = try await guest.tus("POST", "/v1/uploads", headers)
                #expect(reply.code == code, "\(headers)")
                #expect(reply["Tus-Resumable"] == "1.0.0", "\(headers)")
            }
            let empty = ["Upload-Length": "9", "Upload-Metadata": ""]
            #expect(try await guest.tus("POST", "/v1/uploads", empty).status == 201)
            let path = try await guest.begin(9)
            let typed = try await guest.patch(path, [1], at: 0, ["Content-Type": "image/jpeg"])
            #expect(typed.status == 415)
            let coded = try await guest.patch(path, [1], at: 0, ["Content-Encoding": "gzip"])
            #expect(coded.status == 415)
            #expect(try await guest.patch(path, film, at: 0).code == "body_too_large")
            #expect(try await guest.tus("HEAD", path)["Upload-Offset"] == "0")
        }
    }

    @Test func `an upload belongs to its account until it is deleted`() async throws {
        try await LiveServer.with { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let path = try await ann.begin(9)
            #expect(try await ben.tus("DELETE", path).code == "not_found")
            #expect(try await ben.patch(path, [1], at: 0).code == "not_found")
            let list = try await ann.get("/v1/uploads").decode(UploadList.self)
            #expect(list.items.map(\.offset) == [0])
            #expect(try await ben.get("/v1/uploads").decode(UploadList.self).items.isEmpty)
            #expect(try await ann.tus("DELETE", path).status == 204)
            #expect(try await ann.tus("HEAD", path).status == 404)
            #expect(try await ann.tus("DELETE", path).code == "not_found")
        }
    }

    @Test func `a client that can only send POST names the method`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let bytes = SampleFile.mp4.bytes()
            let path = try await guest.begin(bytes.count)
            let patch = try await guest.patch(
                path,
                bytes,
                at: 0,
                ["X-HTTP-Method-Override": "PATCH"],
                method: "POST"
            )
            #expect(patch.status == 204 && patch["Sanguine-Blob"] != nil)
            let delete = ["X-HTTP-Method-Override": "DELETE"]
            #expect(try await guest.tus("POST", path, delete).status == 204)
            #expect(try await guest.tus("POST", path, delete).code == "not_found")
        }
    }

    @Test func `what has arrived of a request that was cut off is kept`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let path = try await guest.begin(film.count)
            let (parts, send) = AsyncStream.makeStream(of: ByteBuffer.self)
            let slow = Task { try await guest.patch(path, parts: parts, length: film.count) }
            send.yield(ByteBuffer(bytes: film.prefix(1_200_000)))
            try await eventually("the first piece is stored") {
                try await guest.tus("HEAD", path)["Upload-Offset"] == "1048576"
            }
            slow.cancel()
            _ = try? await slow.finished()
            try await eventually("the request has ended") { server.files.count == 0 }
            // Bytes that were on their way may be lost.
            let head = try await guest.tus("HEAD", path)["Upload-Offset"]
            let offset = try #require(head.flatMap { Int($0) })
            #expect((1_048_576...1_200_000).contains(offset))
            let rest = try await guest.patch(path, Array(film.dropFirst(offset)), at: offset)
            let simple = try await guest.upload(film).decode(BlobFacts.self)
            #expect(rest["Sanguine-Blob"] == simple.id)
            try await eventually("all space is free again") { server.files.count == 0 }
        }
    }

    @Test func `a page of another origin may use the protocol`() async throws {
        try await LiveServer.with {
            $0.settings.http.corsOrigins = ["https://app.example"]
        } _: { server in
            let preflight = try await server.send(
                "OPTIONS",
                "/v1/uploads",
                headers: [
                    "Origin": "https://app.example", "Access-Control-Request-Method": "PATCH",
                ]
            )
            let allowed = preflight["Access-Control-Allow-Headers"] ?? ""
            #expect(allowed.contains("Upload-Offset") && allowed.contains("Tus-Resumable"))
            let guest = try await server.guest()
            let created = try await guest.tus(
                "POST",
                "/v1/uploads",
                ["Origin": "https://app.example", "Upload-Length": "9"]
            )
            let exposed = created["Access-Control-Expose-Headers"] ?? ""
            #expect(exposed.contains("Location") && exposed.contains("Upload-Offset"))
        }
    }
}

extension Guest {
    /// Sends a request of the protocol without a body.
    func tus(
        _ method: String,
        _ path: String,
        _ headers: [String: String] = [:]
    ) async throws -> Reply {
        try await send(
            method,
            path,
            headers: ["Tus-Resumable": "1.0.0"].merging(headers) { $1 }
        )
    }

    /// Begins an upload, and returns its path.
    func begin(_ length: Int) async throws -> String {
        try #require(
            try await tus("POST", "/v1/uploads", ["Upload-Length": "\(length)"])["Location"]
        )
    }

    /// Sends bytes of an upload.
    func patch(
        _ path: String,
        _ bytes: [UInt8],
        at offset: Int,
        _ headers: [String: String] = [:],
        method: String = "PATCH"
    ) async throws -> Reply {
        let body = HTTPClientRequest.Body.bytes(ByteBuffer(bytes: bytes))
        return try await patch(path, body, at: offset, headers, method)
    }

    /// Sends bytes of an upload as they arrive, from the beginning.
    fileprivate func patch(
        _ path: String,
        parts: AsyncStream<ByteBuffer>,
        length: Int
    ) async throws -> Reply {
        let body = HTTPClientRequest.Body.stream(parts, length: .known(Int64(length)))
        return try await patch(path, body, at: 0, [:], "PATCH")
    }

    private func patch(
        _ path: String,
        _ body: HTTPClientRequest.Body,
        at offset: Int,
        _ headers: [String: String],
        _ method: String
    ) async throws -> Reply {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(server.ports.http)\(path)")
        request.method = HTTPMethod(rawValue: method)
        let own = [
            "Authorization": "Bearer \(session.accessToken)", "Tus-Resumable": "1.0.0",
            "Upload-Offset": "\(offset)", "Content-Type": "application/offset+octet-stream",
        ]
        for (name, value) in own.merging(headers, uniquingKeysWith: { $1 }) {
            request.headers.replaceOrAdd(name: name, value: value)
        }
        request.body = body
        return try await server.send(request)
    }
}
