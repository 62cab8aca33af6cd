import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The JSON of a backend that knows nothing of Sanguine.
@Suite("JSON coding of a backend", .bounded)
struct CodingTests {
    private struct Visit: Codable, Sendable, Equatable {
        struct Owner: Codable, Sendable, Equatable {
            var userId: Int
        }

        var visitId: Int
        var createdAt: Date
        var owners: [Owner] = []
    }

    private struct Measure: FunctionCall {
        typealias Output = String

        struct Input: Codable, Sendable {
            var depth: Double
        }

        static let name = "measure"
        var input: Input
    }

    private static let moment = Date(timeIntervalSince1970: 1_767_323_045.25)
    private static let visit = Visit(visitId: 1, createdAt: moment, owners: [.init(userId: 7)])
    private static let snake = #"""
        {"visit_id":1,"created_at":"2026-01-02T04:04:05.25+01:00","owners":[{"user_id":7}]}
        """#

    private static func query(
        _ policy: Policy = .alwaysStale,
        _ path: String = "visits/1",
        decoder: JSONDecoder? = nil
    ) -> ValueQuery<Visit> {
        ValueQuery("visit", policy: policy.retry(.never)) {
            try await $0.get(path, decoder: decoder)
        }
    }

    private static func answering(_ body: String) -> ScriptedTransport {
        ScriptedTransport { _ in
            .respond(TransportResponse(status: 200, body: Data(body.utf8)))
        }
    }

    private static func snakeCase(_ configuration: inout SanguineClient.Configuration) {
        configuration.server = nil
        configuration.baseURL = URL(string: "http://visits.test")
        configuration.decoder.keyDecodingStrategy = .convertFromSnakeCase
        configuration.encoder.keyEncodingStrategy = .convertToSnakeCase
    }

    private static func secondsDecoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .secondsSince1970
        return decoder
    }

    @Test func `snake-case keys and dates with fractional seconds take one line`() async throws {
        let test = try TestClient(network: Self.answering(Self.snake), change: Self.snakeCase)

        #expect(try await test.client.value(of: Self.query()) == Self.visit)
    }

    @Test(arguments: ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456Z"])
    func `dates are decoded with and without fractional seconds`(date: String) async throws {
        let body = #"{"visit_id":1,"created_at":"\#(date)","owners":[]}"#
        let test = try TestClient(network: Self.answering(body), change: Self.snakeCase)
        let visit = try await test.client.value(of: Self.query())

        #expect(abs(visit.createdAt.timeIntervalSince(Self.moment)) < 1)
    }

    @Test func `a missing key is named as in the app's type`() async throws {
        let body = #"{"visit_id":1,"created_at":"2026-01-02T03:04:05Z","owners":[{}]}"#
        let test = try TestClient(network: Self.answering(body), change: Self.snakeCase)
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: Self.query())
        }

        #expect(error == .decoding("Visit: 'owners.0.userId' is missing"))
    }

    @Test func `a query can have its own decoder`() async throws {
        let body = #"{"visitId":1,"createdAt":1767323045.25,"owners":[{"userId":7}]}"#
        let test = try TestClient(network: Self.answering(body), change: Self.snakeCase)
        let query = Self.query(decoder: Self.secondsDecoder())

        #expect(try await test.client.value(of: query) == Self.visit)
    }

    @Test func `the Sanguine server is decoded in its own format`() async throws {
        let body = #"{"visitId":1,"createdAt":"2026-01-02T03:04:05.250Z","owners":[{"userId":7}]}"#
        let test = try TestClient(network: Self.answering(body)) { configuration in
            configuration.decoder = Self.secondsDecoder()
        }

        #expect(try await test.client.value(of: Self.query()) == Self.visit)
    }

    @Test func `a query that posts encodes and decodes as the backend does`() async throws {
        let test = try TestClient(network: Self.answering(Self.snake), change: Self.snakeCase)
        let query = ValueQuery<Visit>("search") { request in
            try await request.post("search", Visit.Owner(userId: 7))
        }

        #expect(try await test.client.value(of: query) == Self.visit)
        let sent = try #require(test.network.requests.first)
        #expect(sent.method == "POST")
        #expect(sent.body == Data(#"{"user_id":7}"#.utf8))
        #expect(sent.headers["Content-Type"] == "application/json")
    }

    // MARK: - Mutations

    private struct Move: RemoteMutation {
        static let name = "visit.move"
        static let moved = Mutex<[String: Visit]>([:])
        let test: String
        var isOwn = false

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationContext) async throws {
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            encoder.dateEncodingStrategy = .secondsSince1970
            let visit = try await request.send(
                "PUT",
                "visits/1",
                CodingTests.visit,
                headers: ["content-type": "application/vnd.visits+json"],
                encoder: isOwn ? encoder : nil,
                decoder: isOwn ? CodingTests.secondsDecoder() : nil,
                as: Visit.self
            )
            Self.moved.withLock { $0[test] = visit }
        }
    }

    @Test(arguments: [false, true])
    func `a mutation encodes and decodes as the backend does or with its own coders`(
        isOwn: Bool
    ) async throws {
        let own = #"{"createdAt":1767323045.25,"owners":[{"userId":7}],"visitId":1}"#
        let test = try TestClient(network: Self.answering(isOwn ? own : Self.snake)) {
            Self.snakeCase(&$0)
            $0.register(Move.self)
        }
        let name = UUID().uuidString
        let receipt = try test.client.perform(Move(test: name, isOwn: isOwn))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }

        #expect(outcome == .applied)
        #expect(Move.moved.withLock { $0[name] } == Self.visit)
        let sent = try #require(test.network.requests.first)
        let body = String(decoding: sent.body ?? Data(), as: UTF8.self)
        #expect(sent.method == "PUT")
        #expect(sent.headers["content-type"] == "application/vnd.visits+json")
        #expect(sent.headers["Content-Type"] == nil)
        #expect(
            body.contains(isOwn ? "1767323045.25" : #""created_at":"2026-01-02T03:04:05.250Z""#)
        )
        #expect(body.contains(isOwn ? #""visitId":1"# : #""visit_id":1"#))
    }

    // MARK: - The disk

    @Test func `stored values use the client's own coding and not the backend's`() async throws {
        let folder = TemporaryFolder()
        let policy = Policy.fresh(for: .minutes(5)).stored(.onDisk)
        do {
            let test = try TestClient(
                network: Self.answering(Self.snake),
                folder: folder,
                change: Self.snakeCase
            )
            _ = try await test.client.value(of: Self.query(policy))
            test.client.close()
        }
        let test = try TestClient(folder: folder) { configuration in
            configuration.decoder = Self.secondsDecoder()
        }

        #expect(test.client.cached(Self.query(policy)) == Self.visit)
    }

    @Test func `an input that cannot be encoded does not blame the response`() {
        let error = #expect(throws: SanguineError.self) {
            try FunctionCaller.body(Measure(input: .init(depth: .infinity)))
        }
        let text = error?.description ?? ""

        #expect(error?.code == "malformed_body" && error?.errorClass == .defect)
        #expect(text.contains("'measure'") && text.contains("depth'"))
        #expect(!text.contains("response"))
    }
}
