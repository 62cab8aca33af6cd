import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Storage matrix", .bounded)
struct StorageMatrixTests {
    private let profile = QueryDeclaration(
        "profile",
        .fresh(for: .minutes(5)).stored(.onDisk).timeout(.seconds(8))
            .tagged("people", "me").depends(on: "plan")
            .refetched(on: [.foreground, .networkBack]).polled(every: .seconds(90)),
        .query,
        nil
    )
    private let page = QueryDeclaration("page", .untilMidnight.audience(.device), .list, nil)

    private static let storage =
        "name|kind|server|server for|server history|client|kept|tier|client for|client history|"
        + "restored|note"
    private static let reads =
        "read|fresh|timeout|attempts|priority|again on|polled|tags|depends on|version|declared at"

    /// Returns the lines of the text, with columns separated by a bar.
    private func lines(_ text: String) -> [String] {
        text.split(separator: "\n").map { String($0.replacing(#/ {2,}/#, with: "|")) }
    }

    // MARK: - Text

    @Test func `the tables are aligned, sorted and complete`() {
        let matrix = StorageMatrix(declared: [profile, page], seen: [profile])

        #expect(
            lines(matrix.description) == [
                Self.storage,
                "page|list|backend|backend|backend|until midnight|30 days|inMemory|device|none|"
                    + "next read",
                "profile|query|backend|backend|backend|5 min|30 days|onDisk|user|none|next read",
                Self.reads,
                "page|until midnight|30 s|3|normal|midnight|-|-|-|1|-",
                "profile|5 min|8 s|3|normal|foreground, networkBack|90 s|people, me|plan|1|-",
            ]
        )
        let rows = matrix.description.split(separator: "\n").prefix(3)
        let columns = rows.map { line in
            ["tier", "inMemory", "onDisk"].compactMap { line.firstRange(of: $0)?.lowerBound }
                .map { line.distance(from: line.startIndex, to: $0) }
        }
        #expect(Set(columns.map(\.first)).count == 1)
    }

    @Test func `Markdown has the same cells`() {
        let matrix = StorageMatrix(
            declared: [QueryDeclaration("a|b_c", .session, .range, nil)],
            collections: [RecordCollection("notes")]
        )
        let tables = matrix.markdown.components(separatedBy: "\n\n")

        #expect(tables.count == 2)
        let first = tables[0].components(separatedBy: "\n")
        #expect(first[0] == "| " + Self.storage.replacing("|", with: " | ") + " |")
        #expect(first[1] == "|" + String(repeating: "---|", count: 12))
        #expect(first[2].hasPrefix(#"| a\|b\_c | range | backend |"#))
        #expect(first[3].hasPrefix("| notes | collection | database | account | records | feed |"))
    }

    @Test func `the matrix survives encoding as JSON`() throws {
        let matrix = StorageMatrix(
            declared: [profile, page],
            functions: [StorageMatrix.Row(function: "ask", rules: Ask.rules)],
            collections: [RecordCollection("notes")]
        )
        let data = try JSONEncoder().encode(matrix)

        #expect(try JSONDecoder().decode(StorageMatrix.self, from: data) == matrix)
    }

    // MARK: - Rows

    private static let caches: [(ResultCache, [String])] = [
        (.none, ["none", "none", "no"]),
        (.duration(.seconds(90)), ["90 s", "account", "server cache"]),
        (.untilMidnight, ["until midnight", "account", "server cache"]),
        (.session, ["session", "session", "no"]),
        (.forever.public(sharing: "year"), ["for ever", "everyone", "server cache"]),
        (
            .untilChange(of: "birth", "area"),
            ["until area or birth changes", "account", "server cache"]
        ),
    ]

    @Test(arguments: caches)
    func `a function's row shows its cache on the server`(cache: ResultCache, cells: [String]) {
        let row = StorageMatrix.Row(function: "f", rules: FunctionRules(cache: cache))

        #expect([row.server.cached, row.server.audience, row.restored.rawValue] == cells)
        #expect(row.client == StorageMatrix.Client())
        #expect(row.server.history == "none")
    }

    @Test func `a function with a history is mirrored and restored by the feed`() {
        let row = StorageMatrix.Row(function: "f", rules: FunctionRules(keepsHistory: true))

        #expect(row.server.history == "threads" && row.client.history == "mirror")
        #expect(row.server.audience == "account" && row.restored == .feed)
    }

    @Test func `a function whose context is a part of the key is not cached in threads`() {
        func row(_ cache: ResultCache, _ history: HistoryRules) -> StorageMatrix.Row {
            let rules = FunctionRules(cache: cache, keepsHistory: true, history: history)
            return StorageMatrix.Row(function: "f", rules: rules)
        }
        let missing = row(.session, HistoryRules())
        #expect(missing.remark == "not cached in threads")
        #expect(StorageMatrix(rows: [missing]).description.contains("not cached in threads"))
        #expect(row(.untilMidnight, HistoryRules()).remark == "not cached in threads")
        #expect(row(.session, HistoryRules(messages: 0)).remark == nil)
        #expect(row(.session, HistoryRules(tokens: 0)).remark == nil)
        #expect(row(.none, HistoryRules()).remark == nil)
    }

    @Test func `a query that calls a function shows its cells, in one row under one name`() {
        let chart = QueryDeclaration("daily-chart", .untilChanged("birth"), .query, nil)
        let echo = QueryDeclaration("echo", .forever, .query, nil)
        let cached = FunctionRules(cache: .untilMidnight)
        let matrix = StorageMatrix(
            declared: [chart.calling(Ask.self), echo.calling(Echo.self)],
            functions: [
                StorageMatrix.Row(function: "ask", rules: cached),
                StorageMatrix.Row(function: "echo", rules: cached),
            ]
        )

        #expect(matrix.rows.map(\.name) == ["ask", "daily-chart", "echo"])
        #expect(matrix.rows.map(\.kind) == [.function, .query, .function])
        #expect(matrix.rows.map(\.server.cached) == Array(repeating: "until midnight", count: 3))
        #expect(matrix.rows.map(\.client.fresh) == ["none", "for ever", "for ever"])
    }

    @Test func `an undeclared query in use is marked`() {
        let matrix = StorageMatrix(declared: [profile], seen: [page])

        #expect(matrix.rows.map(\.standing) == [.undeclared, .declared])
    }

    // MARK: - Two policies of one name

    @Test func `readers of one value may demand another freshness and time limit`() throws {
        var patient = profile
        patient.policy = profile.policy.timeout(.seconds(60)).priority(.prefetch)
            .adaptive(within: .minutes(1) ... .minutes(9))
        let matrix = StorageMatrix(declared: [profile, patient])

        let row = try #require(matrix.rows.first)
        #expect(matrix.rows.count == 1 && row.standing == .declared)
        #expect(row.client.fresh == "5 min; 1 min to 9 min, adaptive")
        #expect(row.readers.map(\.timeout) == ["8 s", "1 min"])
        #expect(QueryDeclaration.conflict(in: [profile, patient]) == nil)
    }

    @Test func `two ways to store one name are a conflict`() {
        var other = profile
        other.policy = .forever
        let matrix = StorageMatrix(declared: [profile], seen: [other])

        #expect(matrix.rows.map(\.standing) == [.conflict, .conflict])
        #expect(matrix.description.contains("conflict"))
    }

    private static let differences: [(String, @Sendable (Policy) -> Policy)] = [
        ("tier", { $0.stored(.onDisk) }), ("audience", { $0.audience(.device) }),
        ("keep", { $0.kept(for: .hours(1)) }), ("version", { $0.version(2) }),
        ("tags", { $0.tagged("a") }), ("dependencies", { $0.depends(on: "a") }),
        ("refetchEvents", { $0.refetched(on: .foreground) }),
        ("polling", { $0.polled(every: .minutes(1)) }),
    ]

    @Test(arguments: differences)
    func `a client with two ways to store one name is refused, with both places`(
        member: String,
        change: @Sendable (Policy) -> Policy
    ) throws {
        let first = ValueQuery<Int>("chart", policy: .session) { _ in 1 }
        let second = ValueQuery<Int>("chart", policy: change(.session)) { _ in 1 }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.queries = [first.declaration, second.declaration]

        let error = #expect(throws: SanguineError.self) { try SanguineClient(configuration) }
        guard case .invalidDeclaration(let text) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(text.contains("'chart'") && text.contains("'\(member)'"))
        let places = text.matches(of: #/SanguineTests/StorageMatrixTests\.swift:(\d+)/#)
        #expect(Set(places.map { $0.1 }).count == 2)
    }

    @Test func `a list and a query of one name are refused`() {
        let list = ListQuery<MatrixSong>("songs") { _, _ in ListPage(items: []) }
        let query = ValueQuery<Int>("songs") { _ in 1 }

        let text = QueryDeclaration.conflict(in: [list.declaration, query.declaration])
        #expect(text?.contains("'kind'") == true)
    }

    @Test func `the balance under two policies is one row with two readers`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        _ = try await client.value(of: .balance(adaptingWithin: .minutes(2) ... .minutes(10)))

        let row = try #require(client.matrix()["$balance"])
        #expect(row.standing == .declared && row.readers.count == 2)
        #expect(row.client.fresh == "2 min; 2 min to 10 min, adaptive")
        let place = row.readers.last?.place
        #expect(place?.hasPrefix("SanguineTests/StorageMatrixTests.swift:") == true)
    }

    @Test func `a second declaration of a value in use is found by its place`() async throws {
        let test = try TestClient(network: .profiles())
        let first = ValueQuery<Int>("chart", policy: .session) { _ in 1 }
        let second = ValueQuery<Int>("chart", policy: .session.stored(.onDisk)) { _ in 1 }
        _ = try await test.client.value(of: first)
        _ = try await test.client.value(of: second)

        let rows = test.client.matrix().rows.filter { $0.name == "chart" }
        #expect(rows.map(\.standing) == [.conflict, .conflict])
        #expect(Set(rows.flatMap(\.readers).compactMap(\.place)).count == 2)
    }

    @Test func `a declaration that names its function has one reader with the used query`() {
        let query = QueryDeclaration("chart", .forever, .query, nil)
        let matrix = StorageMatrix(declared: [query.calling(Echo.self)], seen: [query])

        #expect(matrix["chart"]?.readers.count == 1)
        #expect(matrix["chart"]?.standing == .declared)
    }

    @Test func `switches are a row of each server, in the feed of every account`() {
        let row = StorageMatrix.Row.config

        #expect(row.name == "$config" && row.server.audience == "everyone")
        #expect(row.client.tier == "onDisk" && row.client.audience == "device")
        #expect(row.restored == .feed)
    }

    // MARK: - A client

    @Test func `a client shows declared, built-in and used queries, and its collections`()
        async throws
    {
        let test = try TestClient(network: .profiles()) { $0.queries = [page] }
        _ = try await test.client.value(of: .fleeting("ada"))
        _ = try await test.client.value(of: .fleeting("bob"))
        let rows = test.client.matrix().rows

        #expect(
            rows.map(\.name)
                == [
                    "$account", "$balance", "$config", "$messages", "$quotas", "$threads",
                    "fleeting", "notes", "page", "posts",
                ]
        )
        #expect(rows.filter { $0.standing == .undeclared }.map(\.name) == ["fleeting"])
    }

    @Test func `lists and ranges are declared with their own policies`() async throws {
        let list = ListQuery<MatrixSong>("songs", policy: .fresh(for: .minutes(3))) { _, _ in
            ListPage(items: [])
        }
        let range = RangeQuery<Int, Int>("steps", policy: .fresh(for: .hours(2))) { _, _ in [:] }
        let test = try TestClient(network: .profiles()) {
            $0.queries = [list.declaration, range.declaration]
        }
        _ = try await test.client.value(of: list)
        _ = try await test.client.value(of: range, in: 1...2)

        let matrix = test.client.matrix()
        let rows = ["songs", "steps"].compactMap { matrix[$0] }
        #expect(rows.map(\.kind) == [.list, .range])
        #expect(rows.map(\.standing) == [.declared, .declared])
        #expect(rows.map(\.client.fresh) == ["3 min", "2 h"])
        #expect(rows.map(\.readers.count) == [1, 1])
    }

    @Test func `a called function is listed, declared or not`() throws {
        let fixture = ClientFixture()
        let client = try fixture.client { $0.functions = [Ask.self] }
        defer { client.close() }
        _ = try client.stream(Echo(text: "Hello"))

        let matrix = client.matrix()
        #expect(matrix["ask"]?.standing == .declared)
        #expect(matrix["echo"]?.standing == .undeclared)
    }

    @Test func `the number of queries that a client records is limited`() {
        let registry = QueryRegistry(declared: [])
        for number in 0..<1_500 {
            registry.saw(QueryDeclaration("query \(number)", .session, .query, nil))
        }
        for number in 1...10 {
            let policy = Policy.fresh(for: .seconds(number))
            registry.saw(QueryDeclaration("query 0", policy, .query, nil))
        }
        let matrix = registry.matrix()

        #expect(matrix.rows.count == 1_000)
        #expect(matrix["query 0"]?.readers.count == 4)
        #expect(matrix.leftOut == 507)
        #expect(matrix.description.contains("507 more"))
    }
}

private struct MatrixSong: Codable, Sendable, Equatable, Identifiable {
    var id: Int
}
