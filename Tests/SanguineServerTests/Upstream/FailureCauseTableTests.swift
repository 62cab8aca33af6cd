import Foundation
import Logging
import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// The effects of each upstream behaviour on the caller, the ledger, the next upstream, other
/// accounts and the log.
///
/// Each row prints its result.
@Suite("Blame for upstream failures", .bounded(.seconds(120)), .serialized)
struct FailureCauseTableTests {
    /// One behaviour of an upstream and its expected effects.
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let reply: ScriptedUpstream.Reply
        /// The status and code that the caller gets.
        let outcome: String
        /// The upstream's code that the caller gets.
        var word: String?
        /// The charged tokens.
        var charged: Int64 = 0
        var fallsBack = true
        /// Whether five such responses to two accounts exclude all accounts.
        var counts = true
        /// The status and code in the log.
        var logged = ""
        var isStreamed = false
        var testDescription: String { name }
    }

    private static let secret = "sk-operator-0123456789"
    private static let prompt = "my cat is called Schnurrli"

    private static func error(_ body: String, _ status: String) -> ScriptedUpstream.Reply {
        .bytes(ScriptedUpstream.json(body, status: status))
    }

    private static func stream(_ events: [String]) -> ScriptedUpstream.Reply {
        .bytesThenHangUp(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
                + events.map { "data: \($0)\n\n" }.joined()
        )
    }

    private static let tooLong = """
        {"error":{"message":"Too long with key \(secret): \(prompt)",\
        "type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}
        """

    private static func error(code: String) -> String {
        #"{"error":{"message":"Words.","type":"some_type","param":null,"code":"\#(code)"}}"#
    }

    private static let withoutContent = """
        {"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,\
        "message":{"role":"assistant","content":null},"finish_reason":"length"}],\
        "usage":{"prompt_tokens":1,"completion_tokens":4}}
        """

    private static let part = #"{"choices":[{"index":0,"delta":{"content":"four"}}]}"#

    static let rows: [Row] = [
        Row(
            name: "200 with an answer",
            reply: .bytes(
                ScriptedUpstream.completion(
                    "Yes.",
                    usage: #"{"prompt_tokens":1,"completion_tokens":3}"#
                )
            ),
            outcome: "200",
            charged: 3,
            fallsBack: false,
            counts: false
        ),
        Row(
            name: "400 context_length_exceeded",
            reply: error(tooLong, "400 Bad Request"),
            outcome: "422 upstream_refused",
            word: "context_length_exceeded",
            fallsBack: false,
            counts: false,
            logged: "400 context_length_exceeded"
        ),
        Row(
            name: "400 content_policy_violation",
            reply: error(error(code: "content_policy_violation"), "400 Bad Request"),
            outcome: "422 upstream_refused",
            word: "content_policy_violation",
            fallsBack: false,
            counts: false,
            logged: "400 content_policy_violation"
        ),
        Row(
            name: "400 unsupported_parameter",
            reply: error(error(code: "unsupported_parameter"), "400 Bad Request"),
            outcome: "502 upstream_failed",
            counts: false,
            logged: "400 unsupported_parameter"
        ),
        Row(
            name: "413 without words",
            reply: error("{}", "413 Content Too Large"),
            outcome: "422 upstream_refused",
            fallsBack: false,
            counts: false,
            logged: "413"
        ),
        Row(
            name: "404 model_not_found",
            reply: error(error(code: "model_not_found"), "404 Not Found"),
            outcome: "502 upstream_failed",
            counts: false,
            logged: "404 model_not_found"
        ),
        Row(
            name: "401 invalid_api_key",
            reply: error(error(code: "invalid_api_key"), "401 Unauthorized"),
            outcome: "502 upstream_failed",
            logged: "401 invalid_api_key"
        ),
        Row(
            name: "429 rate_limit_exceeded",
            reply: error(error(code: "rate_limit_exceeded"), "429 Too Many Requests"),
            outcome: "502 upstream_failed",
            logged: "429 rate_limit_exceeded"
        ),
        Row(
            name: "500",
            reply: error(error(code: "server_error"), "500 Internal Server Error"),
            outcome: "502 upstream_failed",
            logged: "500 server_error"
        ),
        Row(
            name: "529 overloaded_error",
            reply: error(error(code: "overloaded_error"), "529 Overloaded"),
            outcome: "502 upstream_failed",
            logged: "529 overloaded_error"
        ),
        Row(
            name: "200 with a caller's error",
            reply: error(tooLong, "200 OK"),
            outcome: "422 upstream_refused",
            word: "context_length_exceeded",
            fallsBack: false,
            counts: false,
            logged: "500 context_length_exceeded"
        ),
        Row(
            name: "200 with the upstream's error",
            reply: error(#"{"error":"the engine died"}"#, "200 OK"),
            outcome: "502 upstream_failed",
            logged: "500"
        ),
        Row(
            name: "200 without an answer",
            reply: error("{}", "200 OK"),
            outcome: "502 upstream_failed"
        ),
        Row(
            name: "200 with a page",
            reply: error("<html>Sign in</html>", "200 OK"),
            outcome: "502 upstream_failed"
        ),
        Row(
            name: "200 with reasoning that used all tokens",
            reply: error(withoutContent, "200 OK"),
            outcome: "200",
            charged: 4,
            fallsBack: false,
            counts: false
        ),
        Row(
            name: "a connection closed without an answer",
            reply: .bytesThenHangUp(""),
            outcome: "502 upstream_failed"
        ),
        Row(
            name: "a first frame with a caller's error",
            reply: stream([tooLong]),
            outcome: "422 upstream_refused",
            word: "context_length_exceeded",
            fallsBack: false,
            counts: false,
            logged: "500 context_length_exceeded",
            isStreamed: true
        ),
        Row(
            name: "a frame with an error after a part",
            reply: stream([part, error(code: "content_filter")]),
            outcome: "422 upstream_refused",
            word: "content_filter",
            charged: 1,
            fallsBack: false,
            counts: false,
            logged: "500 content_filter",
            isStreamed: true
        ),
        Row(
            name: "a stream that breaks after a part",
            reply: stream([part]),
            outcome: "502 upstream_failed",
            charged: 1,
            fallsBack: false,
            isStreamed: true
        ),
    ]

    @Test(arguments: rows)
    func `each upstream behaviour is charged, reported, counted and logged by the table`(
        row: Row
    ) async throws {
        let notes = Notes()
        let end = try await one(row, notes)
        #expect(end.outcome == row.outcome)
        #expect(end.word == row.word)
        #expect(end.charged == row.charged)
        let log = notes.text
        #expect(!(end.body + log).contains(Self.secret) && !log.contains("Schnurrli"))
        if !row.logged.isEmpty { #expect(log.contains(row.logged), "\(log)") }
        let fallsBack = try await self.fallsBack(row)
        #expect(fallsBack == row.fallsBack)
        let (kept, others) = try await keepsOut(row)
        #expect(others == row.counts)
        let columns = [
            row.name, end.outcome, end.word ?? "-", "charged \(end.charged)",
            fallsBack ? "falls back" : "ends", kept ? "excludes the account" : "counts nothing",
            others ? "two accounts: all out" : "-", log.isEmpty ? "no line" : "log: \(log)",
        ]
        print(columns.joined(separator: " | "))
    }

    // MARK: - One call

    private struct End {
        var outcome: String
        var word: String?
        var charged: Int64
        var body: String
    }

    /// Makes one call and checks the ledger.
    private func one(_ row: Row, _ notes: Notes) async throws -> End {
        let found = Mutex<End?>(nil)
        try await serve(row, notes) { server, _ in
            let guest = try await server.guest()
            let before = try await guest.balance().available
            let body = try await call(row, guest)
            let balance = try await guest.balance()
            #expect(balance.held == 0)
            let report = try await server.authority.verifyLedger()
            #expect(report.differences.isEmpty, "\(report)")
            let charged = before - balance.available
            found.withLock {
                $0 = End(outcome: body.outcome, word: body.word, charged: charged, body: body.text)
            }
        }
        return try #require(found.withLock { $0 })
    }

    private func call(
        _ row: Row,
        _ guest: Guest,
        _ number: Int = 0
    ) async throws -> (outcome: String, word: String?, text: String) {
        let input = #"{"input":{"question":"\#(number): \#(Self.prompt)"}}"#
        let headers = row.isStreamed ? ["Accept": "text/event-stream"] : [:]
        let reply = try await guest.post("/v1/functions/ask", input, headers: headers)
        var json = try? reply.json
        if row.isStreamed, let data = reply.body.components(separatedBy: "data: ").last {
            json = try JSONDecoder().decode(JSONValue.self, from: Data(data.utf8))
        }
        let problem = json?["code"]?.string
        let status = json?["status"]?.integer ?? Int64(reply.status)
        let outcome = problem.map { "\(status) \($0)" } ?? "\(status)"
        return (outcome, json?["upstream"]?["code"]?.string, reply.body)
    }

    // MARK: - The next upstream, and other accounts

    private func fallsBack(_ row: Row) async throws -> Bool {
        let asked = Mutex(false)
        try await ScriptedUpstream.with({ _ in
            asked.withLock { $0 = true }
            return .bytes(ScriptedUpstream.completion("Spare."))
        }) { spare in
            try await serve(row, Notes(), spare: spare.port) { server, _ in
                _ = try await call(row, try await server.guest())
            }
        }
        return asked.withLock { $0 }
    }

    /// - Returns: Whether six calls of one account exclude that account, and whether five calls of
    ///   two accounts exclude a third one. One account's calls never exclude another.
    private func keepsOut(_ row: Row) async throws -> (account: Bool, others: Bool) {
        let found = Mutex((account: false, others: false))
        try await serve(row, Notes()) { server, _ in
            let guests = try await (server.guest(), server.guest(), server.guest())
            for number in 0..<5 { _ = try await call(row, guests.0, number) }
            let sixth = try await call(row, guests.0, 5)
            let bystander = try await call(row, guests.1)
            #expect(bystander.outcome == row.outcome, "one account's calls exclude another account")
            for number in 1..<5 { _ = try await call(row, guests.1, number) }
            let third = try await call(row, guests.2)
            found.withLock {
                $0 = (sixth.outcome == "503 overloaded", third.outcome == "503 overloaded")
            }
        }
        return found.withLock { $0 }
    }

    private func serve(
        _ row: Row,
        _ notes: Notes,
        spare: Int? = nil,
        _ body: @escaping @Sendable (LiveServer, ScriptedUpstream) async throws -> Void
    ) async throws {
        let reply = row.reply
        try await ScriptedUpstream.with({ _ in reply }) { upstream in
            try await LiveServer.with {
                $0.logger = Logger(label: "test") { _ in notes.handler }
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.upstream.key = Secret(Self.secret)
                if let spare {
                    let url = "http://127.0.0.1:\(spare)"
                    $0.settings.upstreams = [UpstreamSetting(name: "spare", url: url)]
                    $0.settings.upstream.fallbacks = ["spare"]
                }
                $0.settings.functions[1].rules.price = .usage(
                    perMillionInput: 0,
                    perMillionOutput: 1_000_000
                )
                $0.settings.functions[1].maxOutputTokens = 4
            } _: { server in
                try await body(server, upstream)
            }
        }
    }
}

/// The reasons that log lines about upstreams contain.
private final class Notes: Sendable {
    private let lines = Mutex<[String]>([])

    /// The recorded reasons, joined.
    var text: String { lines.withLock { $0 }.joined(separator: "; ") }

    var handler: some LogHandler { Handler(notes: self) }

    private struct Handler: LogHandler {
        let notes: Notes
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            guard let metadata = event.metadata, metadata["upstream"] != nil,
                metadata["reason"] != nil
            else { return }
            let words = ["status", "code", "message"].compactMap { metadata[$0].map { "\($0)" } }
            let text = words.isEmpty ? "\(metadata["reason"] ?? "")" : words.joined(separator: " ")
            notes.lines.withLock { $0.append(text) }
        }
    }
}
