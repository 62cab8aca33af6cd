import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The table of answers in the guide *Mutations*, row by row.
@Suite("Backend responses to writes", .bounded)
struct WriteAnswerTests {
    private struct Write: RemoteMutation {
        static let name = "song.write"
        let method: String
        var isDecoded = false

        func effects(on view: inout MutationEffects) {
            view.update(.song("a")) { $0.likes += 1 }
        }

        func send(_ request: MutationContext) async throws {
            guard isDecoded else { return try await request.send(method, "songs/a/like") }
            _ = try await request.send(method, "songs/a/like", as: Song.self)
        }
    }

    struct Case: Sendable {
        var answer: ScriptedTransport.Answer
        var methods = ["POST", "PUT", "PATCH", "DELETE"]
        var isDecoded = false
    }

    private static func page(
        _ type: String?,
        _ body: String = "<html>Sign in</html>",
        status: Int = 200
    ) -> ScriptedTransport.Answer {
        let headers = type.map { ["Content-Type": $0] } ?? [:]
        return .respond(TransportResponse(status: status, headers: headers, body: Data(body.utf8)))
    }

    private static func problem(_ status: Int, _ code: String) -> ScriptedTransport.Answer {
        .json(["code": code], status: status)
    }

    /// The cases for each row of the guide's table, by its first column.
    private static let rows: [String: [Case]] = [
        "200 to 299": [Case(answer: .status(200)), Case(answer: .status(204))],
        "200 to 299, and the body cannot be decoded": [
            Case(answer: .json(["id": 7]), isDecoded: true),
            Case(answer: .json(["nothing": 1], status: 201), isDecoded: true),
            Case(answer: .status(204), isDecoded: true),
        ],
        "200 with nothing of the declared answer": [
            Case(answer: .json(["redirect": "http://login.test/"]), isDecoded: true),
            Case(answer: .json(["sign", "in"]), isDecoded: true),
            Case(answer: page("text/plain", "Please sign in."), isDecoded: true),
            Case(answer: .status(200), isDecoded: true),
        ],
        "200 to 299, and the body is larger than 8 MiB": [
            Case(answer: .fail(.bodyTooLarge(limitBytes: 1))),
            Case(answer: .fail(.bodyTooLarge(limitBytes: 1)), isDecoded: true),
        ],
        "200 to 299, and the body is a web page": [
            Case(answer: page("text/html; charset=utf-8")), Case(answer: page("TEXT/HTML")),
            Case(answer: page("text/html", "Please sign in.")), Case(answer: page(nil)),
            Case(answer: page("application/json", "\u{FEFF}\r\n <!DOCTYPE html>\n<p>")),
            Case(answer: page("application/xhtml+xml"), isDecoded: true),
            Case(answer: page(nil, "<head><meta http-equiv=refresh content=0>")),
            Case(answer: page("text/plain", "<!-- login --><html>")),
            Case(answer: page(nil, "<script>location='http://login.test'</script>")),
            Case(answer: page("application/captive+json", #"{"captive":true}"#)),
        ],
        "a redirect that is not followed": [
            Case(answer: .status(302, headers: ["Location": "https://login.test/"])),
            Case(answer: .status(303)), Case(answer: .status(307), isDecoded: true),
            Case(answer: .status(301, headers: ["Location": "https://login.test/"])),
        ],
        "301 or 308 to another address of the same host": [
            Case(answer: .status(301, headers: ["Location": "/songs/a/like/"])),
            Case(answer: .status(308, headers: ["Location": "https://songs.test/songs/a/like"])),
        ],
        "400 to 499, and the body is a web page or a router's": [
            Case(answer: page("text/html", status: 403)),
            Case(answer: page("text/html", status: 400)),
            Case(answer: page(nil, "<!DOCTYPE html><h1>404", status: 404), isDecoded: true),
            Case(answer: page("text/plain", "default backend - 404", status: 404)),
            Case(answer: page("text/plain; charset=utf-8", "404 page not found\n", status: 404)),
        ],
        "404 or 410 to a `DELETE`": [
            Case(answer: .status(404), methods: ["DELETE"]),
            Case(answer: .status(410), methods: ["DELETE"]),
            Case(answer: problem(404, "not_found"), methods: ["DELETE"], isDecoded: true),
        ],
        "409 or 422 with the code `already_exists` to a `POST` or `PUT`": [
            Case(answer: problem(409, "already_exists"), methods: ["POST", "PUT"]),
            Case(answer: problem(422, "already_exists"), methods: ["POST", "PUT"]),
            Case(answer: problem(409, "already_exists"), methods: ["POST"], isDecoded: true),
        ],
        "409 with the code `operation_in_progress`, or with `Retry-After`": [
            Case(answer: problem(409, "operation_in_progress")),
            Case(answer: .status(409, headers: ["Retry-After": "2"])),
        ],
        "408, 425, 429, 503 or 511": [
            Case(answer: .status(408)), Case(answer: .status(425)), Case(answer: .status(429)),
            Case(answer: .status(503)), Case(answer: .status(511)),
        ],
        "another status from 500 on, or none": [
            Case(answer: .status(500)), Case(answer: .status(507)),
            Case(answer: .fail(.interrupted("test"))), Case(answer: .fail(.timedOut)),
        ],
        "any other status": [
            Case(answer: .status(403)), Case(answer: .status(409)), Case(answer: .status(422)),
            Case(answer: .status(404), methods: ["POST", "PUT", "PATCH"]),
            Case(answer: problem(409, "already_exists"), methods: ["PATCH", "DELETE"]),
        ],
    ]

    private static let guide: [String: [String]] = {
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/Sanguine/Sanguine.docc/Mutations.md")
            .standardizedFileURL
        let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
        let lines = text.split(separator: "\n").drop { $0 != "## What an answer means" }
            .drop { !$0.hasPrefix("|") }.prefix { $0.hasPrefix("|") }.dropFirst(2)
        let cells = lines.map { line in
            line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        return Dictionary(cells.map { ($0[0], Array($0.dropFirst())) }) { first, _ in first }
    }()

    @Test func `the guide's table has the rows tested here`() {
        #expect(Set(Self.guide.keys) == Set(Self.rows.keys))
    }

    @Test(arguments: Self.guide.keys.sorted(), [false, true])
    func `an answer means what the guide says`(row: String, isRepeated: Bool) async throws {
        let meaning = try #require(Self.guide[row]?[isRepeated ? 1 : 0])
        for example in try #require(Self.rows[row]) {
            for method in example.methods {
                let became = try await Self.become(example, method, isRepeated: isRepeated)
                #expect(became == meaning, "\(method), \(example.answer)")
            }
        }
    }

    /// Returns the write's fate in the guide's words.
    private static func become(
        _ example: Case,
        _ method: String,
        isRepeated: Bool
    ) async throws -> String {
        let fixture = SongFixture()
        let client = try fixture.client { $0.register(Write.self) }
        defer { client.close() }
        let tried = isRepeated ? 2 : 1
        if isRepeated { fixture.server.fail(.fail(.interrupted("test"))) }
        fixture.server.fail(example.answer)
        let receipt = try client.perform(Write(method: method, isDecoded: example.isDecoded))
        try await fixture.pass(untilWrites: tried)
        try await eventually("the sending has ended") { !client.users.current.outbox.isSending }
        guard client.outbox.summary.unsent == 0 else {
            // The write is queued, and finally applied under the same key.
            try await fixture.pass(untilWrites: tried + 1)
            #expect(try await receipt.outcome == .applied)
            #expect(Set(fixture.writes.map { $0.headers["Idempotency-Key"] }).count == 1)
            return "sent again"
        }
        #expect(fixture.writes.count == tried)
        guard case .refused = try await receipt.outcome else { return "done" }
        return "refused"
    }

    @Test func `Accept or one rule supports a backend that answers writes with pages`()
        async throws
    {
        let fixture = SongFixture()
        let client = try fixture.client { configuration in
            configuration.isAnswer = { request, response in
                response.status == 303 || response.header("x-api") != nil
                    || response.isAnswer(to: request)
            }
            configuration.register(Write.self)
        }
        defer { client.close() }
        let page = TransportResponse(
            status: 200,
            headers: ["Content-Type": "text/html", "X-API": "1"],
            body: Data("<p>done".utf8)
        )
        for answer in [ScriptedTransport.Answer.respond(page), .status(303)] {
            fixture.server.fail(answer)
            #expect(try await client.perform(Write(method: "POST")).outcome == .applied)
        }
        #expect(fixture.writes.count == 2)
    }

    @Test(arguments: [true, false])
    func `an operation that the backend never answers ends in the tray`(
        isRestarted: Bool
    ) async throws {
        let fixture = SongFixture(onDisk: isRestarted)
        let first = try fixture.client { $0.register(Write.self) }
        let limit = RecordLimits.foreignAnswers
        for _ in 0..<limit { fixture.server.fail(Self.page("text/html", status: 403)) }
        _ = try first.perform(Write(method: "POST"))
        try await eventually("nearly all attempts are made") {
            if fixture.writes.count < limit - 10 { first.outbox.resume() }
            return fixture.writes.count >= limit - 10
        }
        try await eventually("the failure is shown") {
            first.outbox.pending.first?.lastFailure?.response?.status == 403
        }
        #expect(first.outbox.refused.isEmpty)
        try await eventually("the sending has ended") { !first.users.current.outbox.isSending }
        if isRestarted { first.close() }
        let client =
            isRestarted ? try fixture.client(seed: 2) { $0.register(Write.self) } : first
        try await eventually("the operation is in the tray") {
            if client.outbox.refused.isEmpty { client.outbox.resume() }
            return client.outbox.refused.count == 1
        }
        #expect(fixture.writes.count == limit)
        #expect(client.outbox.refused.map(\.problem.status) == [403])
        try client.outbox.retry(try #require(client.outbox.refused.first).id)
        try await fixture.pass(untilWrites: limit + 1)
        try await client.settle()
        #expect(client.outbox.pending.isEmpty && client.outbox.refused.isEmpty)
        client.close()
    }

    @Test func `a refusal that names a new address reports it`() async throws {
        let fixture = SongFixture()
        fixture.server.fail(.status(301, headers: ["Location": "/songs/a/like/?token=secret"]))
        let client = try fixture.client { $0.register(Write.self) }
        defer { client.close() }
        _ = try await client.perform(Write(method: "POST")).outcome
        let problem = try #require(client.outbox.refused.first?.problem)
        #expect(problem.detail.contains("http://songs.test/songs/a/like/"))
        #expect(!problem.detail.contains("secret"))
    }

    @Test func `errorBody supports a backend that refuses with pages`() async throws {
        let fixture = SongFixture()
        fixture.server.fail(Self.page("text/html", status: 403))
        let client = try fixture.client { configuration in
            configuration.errorBody = { _ in ErrorBody(errorClass: .refused) }
            configuration.register(Write.self)
        }
        defer { client.close() }
        guard case .refused = try await client.perform(Write(method: "POST")).outcome else {
            Issue.record("The page counts as the backend's response.")
            return
        }
    }

    @Test func `an oversized read inside a mutation ends in the tray`() async throws {
        let fixture = SongFixture()
        fixture.server.fail(.fail(.bodyTooLarge(limitBytes: 1)))
        let client = try fixture.client { $0.register(Write.self) }
        defer { client.close() }
        _ = try await client.perform(Write(method: "OPTIONS", isDecoded: true)).outcome
        #expect(client.outbox.refused.map(\.problem.code) == [.mutatorFailed])
    }

    @Test func `a web page replaces no value`() async throws {
        let network = ScriptedTransport()
        network.script(.json(Song(id: "a", likes: 10)), Self.page("text/html"))
        let client = try SongFixture().client { $0.transport = network }
        defer { client.close() }
        _ = try await client.value(of: .song("a"))
        let error = await #expect(throws: SanguineError.self) {
            try await client.refresh(.song("a"))
        }

        #expect(error?.code == "intercepted")
        #expect(client.likes("a") == 10)
    }

    @Test func `an empty answer with the content type of a page is an answer`() {
        let url = URL(filePath: "/")
        let request = TransportRequest(url: url, headers: ["accept": "application/json"])
        let pages = TransportRequest(url: url, headers: ["Accept": "text/html, */*;q=0.1"])
        let headers = ["Content-Type": "text/html"]
        let empty = TransportResponse(status: 200, headers: headers, body: Data("\r\n".utf8))
        let page = TransportResponse(status: 200, headers: headers, body: Data("<p>".utf8))

        let drawing = TransportResponse(
            status: 200,
            headers: ["Content-Type": "image/svg+xml"],
            body: Data("<svg/>".utf8)
        )

        #expect(empty.isAnswer(to: request) && drawing.isAnswer(to: request))
        #expect(!page.isAnswer(to: request) && page.isAnswer(to: pages))
    }
}
