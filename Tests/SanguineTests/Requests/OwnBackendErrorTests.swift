import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Tests the guide's table of errors from an app's own backend and closures, row by row, with a
/// server on a socket: as a read and as an operation of the outbox.
@Suite("Every error of the app's own backend", .bounded)
struct OwnBackendErrorTests {
    private struct Busy: ClassifiedError {
        var errorClass: ErrorClass { .refused }
    }

    private struct OwnError: Error {}

    /// A transport as an app might write it.
    private struct PlainTransport: HTTPTransport {
        let base = URLSessionTransport()

        func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
            try await base.send(request)
        }
    }

    /// A row of the table, identified by the start of its first cell.
    private struct Row: Sendable {
        let begins: String
        let code: String
        let errorClass: ErrorClass
        var isRefused = true
        /// The number of requests that a read sends.
        var requests = 1
        var status = 500
        var body = RequestBody.data(Data("{}".utf8))
        var thrown: (any Error)?
        var change: @Sendable (inout SanguineClient.Configuration) -> Void = { _ in }
    }

    /// A sparse file one byte larger than the limit for bodies in memory.
    private static let large: URL = {
        let url = FileManager.default.temporaryDirectory.appending(path: "sanguine-large-file")
        try? Data().write(to: url)
        let handle = try? FileHandle(forWritingTo: url)
        try? handle?.truncate(atOffset: UInt64(ClientLimits.requestBodyBytes) + 1)
        try? handle?.close()
        return url
    }()

    private static let rows = [
        Row(begins: "``SanguineClient/Configuration/errorBody``", code: "own", errorClass: .refused)
        {
            $0.errorBody = { _ in ErrorBody(code: "own", errorClass: .refused) }
        },
        Row(begins: "it returns a body without", code: "http_404", errorClass: .gone, status: 404) {
            $0.errorBody = { _ in nil }
        },
        Row(
            begins: "``SanguineClient/Configuration/authorize``",
            code: "unauthenticated",
            errorClass: .needsSignIn,
            isRefused: false,
            requests: 0
        ) {
            $0.authorize = { _ in throw OwnError() }
        },
        Row(
            begins: "a 401 after a renewal",
            code: "http_401",
            errorClass: .needsSignIn,
            isRefused: false,
            requests: 2,
            status: 401
        ) {
            $0.refresh = {}
        },
        Row(
            begins: "a closure throws a",
            code: "query_failed",
            errorClass: .refused,
            requests: 0,
            thrown: Busy()
        ),
        Row(
            begins: "a closure throws any other",
            code: "query_failed",
            errorClass: .defect,
            requests: 0,
            thrown: OwnError()
        ),
        Row(
            begins: "an ``Interceptor`` throws",
            code: "query_failed",
            errorClass: .defect,
            status: 200
        ) { configuration in
            configuration.interceptors = [
                { request, next in
                    _ = try await next(request)
                    throw OwnError()
                }
            ]
        },
        Row(
            begins: "a ``RequestBody`` is too large",
            code: "body_too_large",
            errorClass: .refused,
            requests: 0,
            body: .data(Data(count: ClientLimits.requestBodyBytes + 1))
        ),
        Row(
            begins: "the file of a",
            code: "malformed_body",
            errorClass: .defect,
            requests: 0,
            body: .file(URL(filePath: "/nowhere/photo.jpg"))
        ),
        Row(
            begins: "a transport that is no",
            code: "not_configured",
            errorClass: .defect,
            isRefused: false,
            requests: 0,
            body: .file(large)
        ) {
            $0.transport = PlainTransport()
        },
    ]

    /// Provokes a row's error as an operation.
    private struct Provoke: RemoteMutation {
        static let name = "provoke"
        let row: Int

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationContext) async throws {
            let row = OwnBackendErrorTests.rows[row]
            if let thrown = row.thrown { throw thrown }
            try await request.post("a", row.body)
        }
    }

    private static func client(_ server: LoopbackServer, _ row: Row) throws -> SanguineClient {
        try EveryError.client(server) { configuration in
            configuration.mutations = [Provoke.self]
            row.change(&configuration)
        }
    }

    @Test func `the rows tested here are exactly the guide's`() throws {
        let guide = try #require(EveryError.guide)
        let start = try #require(guide.range(of: "| situation | the error |")).lowerBound
        let cells = guide[start...].split(separator: "\n", omittingEmptySubsequences: false)
            .prefix { $0.hasPrefix("|") }.dropFirst(2).map { $0.dropFirst(2) }

        #expect(cells.count == Self.rows.count)
        for (cell, row) in zip(cells, Self.rows) { #expect(cell.hasPrefix(row.begins)) }
    }

    @Test(arguments: rows.indices)
    func `a read fails as the guide says`(number: Int) async throws {
        let row = Self.rows[number]
        let server = try LoopbackServer { _, _ in LoopbackServer.Reply(status: row.status) }
        defer { server.stop() }
        let client = try Self.client(server, row)
        defer { client.close() }
        let query = ValueQuery<Int>("row", number) { request in
            if let thrown = row.thrown { throw thrown }
            return try await request.response("a", body: row.body).status
        }
        let error = try await EveryError.error { try await client.value(of: query) }

        #expect(error.code == row.code)
        #expect(error.errorClass == row.errorClass)
        #expect(server.received.count == row.requests)
    }

    @Test(arguments: rows.indices)
    func `an operation waits or is refused as the guide says`(number: Int) async throws {
        let row = Self.rows[number]
        let server = try LoopbackServer { _, _ in LoopbackServer.Reply(status: row.status) }
        defer { server.stop() }
        let client = try Self.client(server, row)
        defer { client.close() }
        try client.perform(Provoke(row: number))
        try await eventually("the operation was attempted") {
            !client.outbox.refused.isEmpty || client.outbox.pending.first?.lastFailure != nil
        }

        #expect(client.outbox.refused.isEmpty == !row.isRefused)
        #expect(client.outbox.pending.count == (row.isRefused ? 0 : 1))
        let failure = client.outbox.pending.first?.lastFailure
        #expect(failure?.code == (row.isRefused ? nil : row.code))
    }

    @Test func `a form with files is resent once after a refresh, over a socket`() async throws {
        let files = TemporaryFolder()
        let photo = files.url.appending(path: "photo.jpg")
        try FileManager.default.createDirectory(at: files.url, withIntermediateDirectories: true)
        try Data("photo".utf8).write(to: photo)
        let tokens = OwnTokens()
        tokens.expire()
        let server = try LoopbackServer { _, text in
            let isValid = text.lowercased().contains("authorization: bearer 2")
            return LoopbackServer.Reply(status: isValid ? 204 : 401)
        }
        defer { server.stop() }
        let client = try EveryError.client(server) { tokens.configure(&$0) }
        defer { client.close() }
        let form = RequestBody.multipart([.file("photo", at: photo)])
        let query = ValueQuery<Int>("form") { try await $0.response("a", body: form).status }

        #expect(try await client.value(of: query) == 204)
        #expect(tokens.refreshes == 1)
        let bodies = server.received.compactMap { $0.split(separator: "\r\n\r\n").last }
        #expect(bodies.count == 2 && bodies[0] == bodies[1])
        #expect(server.received.allSatisfy { $0.contains("\r\n\r\nphoto\r\n") })
    }
}
