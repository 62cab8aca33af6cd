import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Each section shows the real state of a client, and no section shows the user's data.
@Suite("Debug report", .bounded)
struct DebugReportTests {
    /// Part of every value, parameter, lane, id and credential that must not be shown.
    private static let secret = "hunter2"

    /// Returns the lines of a section.
    private func section(_ title: String, of client: SanguineClient) -> [String] {
        let lines = client.debugReport().description.components(separatedBy: "\n")
        let start = lines.firstIndex(of: title).map { $0 + 1 } ?? lines.count
        return lines[start...].prefix { !$0.isEmpty }
            .map { $0.trimmingCharacters(in: .whitespaces) }
    }

    // MARK: - Client, network and requests

    @Test func `it begins with the version and the time`() throws {
        let test = try TestClient()

        let first = test.client.debugReport().description.prefix { $0 != "\n" }
        #expect(first == "Sanguine \(SanguineClient.version), \(test.wall.now())")
    }

    @Test func `a guest is named by the ends of ids`() async throws {
        let client = try await ClientFixture().clientWithBalance()
        defer { client.close() }
        let account = try #require(client.accountId).description
        let device = try client.services.vault.identity().deviceId

        let lines = section("client", of: client)
        #expect(lines.contains("server: http://test.invalid:80"))
        #expect(lines.contains("backend: none"))
        #expect(lines.contains("user: guest …\(account.suffix(8))"))
        #expect(lines.contains("device: \(device.prefix(8))…"))
        #expect(lines.contains { $0.hasPrefix("access token: expires in ") })
        #expect(!client.debugReport().description.contains(account))
        #expect(!client.debugReport().description.contains(device))
    }

    @Test func `a client says that no user is known yet`() throws {
        let client = try ClientFixture().client { $0.appVersion = "42" }
        defer { client.close() }

        let lines = section("client", of: client)
        #expect(lines.contains("user: none yet"))
        #expect(lines.contains("device: unknown"))
        #expect(lines.contains("app version: 42"))
        #expect(!lines.contains { $0.hasPrefix("access token") })
    }

    @Test func `it says whether there is a network and the app is in the foreground`() throws {
        let fixture = RecordsFixture()
        let client = try fixture.client()
        #expect(section("network", of: client).starts(with: ["online", "app in the foreground"]))

        fixture.connectivity.disconnect()
        fixture.lifecycle.enterBackground()
        #expect(section("network", of: client).starts(with: ["offline", "app in the background"]))
    }

    @Test func `requests are counted by host, in flight and waiting`() async throws {
        let test = try TestClient(network: .profiles()) { $0.readsPerHost = 2 }
        #expect(section("requests", of: test.client) == ["none in the queue"])
        test.network.hold()
        let reads = (1...5).map { number in
            Task { try await test.client.value(of: .profile("\(number)")) }
        }
        try await test.network.waitForHeld(2)
        let expected = "http://sanguine.test:80: 2 in flight; "
        try await eventually("three requests wait") {
            section("requests", of: test.client)
                == [expected + "waiting: 0 visible, 3 normal, 0 prefetch"]
        }
        test.network.release()
        for read in reads { _ = try await read.finished() }
    }

    // MARK: - Cache

    @Test func `entries are counted by audience and freshness`() async throws {
        let test = try TestClient(network: .profiles()) { $0.followsDeviceTimeZone = false }
        _ = try await test.client.value(of: .fleeting("a"))
        test.wall.advance(by: .minutes(10))
        _ = try await test.client.value(of: .fleeting("b"))
        _ = try await test.client.value(of: .fleeting("c", audience: .device))

        let lines = section("cache", of: test.client)
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("user: 2 in memory, ") == true)
        #expect(lines.first?.hasSuffix(" bytes, 1 fresh, 1 stale, 0 failed") == true)
        #expect(lines.last?.hasPrefix("device: 1 in memory, ") == true)
        #expect(
            section("entries, the last used first", of: test.client) == [
                "fleeting (device): fresh, arrived 0 s ago, held",
                "fleeting (user): fresh, arrived 0 s ago, held",
                "fleeting (user): not fresh, arrived 10 min ago, held",
            ]
        )
    }

    @Test func `failures are counted by query and code`() async throws {
        let network = ScriptedTransport { _ in .fail(.offline("no network")) }
        let test = try TestClient(network: network) { $0.retries = false }
        for id in ["a", "b"] {
            await #expect(throws: SanguineError.self) {
                try await test.client.value(of: .fleeting(id))
            }
        }

        #expect(section("failures", of: test.client) == ["fleeting: offline, entries: 2"])
        let metrics = section("metrics", of: test.client)
        #expect(metrics.contains { $0.hasPrefix("fleeting") })
    }

    // MARK: - Outbox, feed, balance and storage

    @Test func `operations are listed with their lane, age, failures and next try`() async throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        _ = try await client.value(of: .song("a"))
        fixture.server.fail(.status(500))
        try client.perform(LikeSong(song: "a"))
        try await eventually("the operation has failed once") {
            client.outbox.pending.first?.lastFailure != nil
        }
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        try client.perform(RenameSong(song: "a", title: Self.secret))
        fixture.wall.advance(by: .minutes(2))

        let lines = section("outbox", of: client)
        try #require(lines.count == 4)
        #expect(lines[0].hasPrefix("3 of 10000 operations; 3 unsent, 0 settling, 0 refused; "))
        #expect(lines[0].hasSuffix("next try awaited by 1 lane; paused: no network"))
        #expect(lines[1].hasPrefix("lane 1: song.like, may have been applied, "))
        #expect(lines[1].contains(", created 2 min ago, failed in a row: 1, next try due "))
        #expect(lines[1].hasSuffix(", last error http_500"))
        #expect(lines[2].hasPrefix("lane 1: song.like, queued, "))
        #expect(lines[3].hasPrefix("lane 2: song.rename, queued, "))
    }

    @Test func `the feed shows its cursor and its pulls`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client { $0.recordPolling = nil }
        #expect(section("feed", of: client) == ["not in use"])
        fixture.authority.set("a", to: 1)
        try await client.synchronize()
        try await client.waitUntilIdle()

        let position = client.users.current.outbox.read { $0.state.position }
        let lines = section("feed", of: client)
        #expect(position > 0)
        #expect(lines.first?.hasPrefix("cursor: at \(position), ") == true)
        #expect(lines.first?.hasSuffix(", complete") == true)
        #expect(lines.last == "pulls: no pull is in progress")
    }

    @Test func `the balance is shown with its age`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        fixture.clock.advance(by: .seconds(5))

        let lines = section("balance", of: client)
        #expect(lines.first?.hasPrefix("available 100, held 0, at ") == true)
        #expect(lines.first?.hasSuffix(", arrived 5 s ago") == true)
        #expect(lines.last == "calls not in it: 0, unread: 0")
    }

    @Test func `files are listed with their sizes, and other files of the app are not`()
        async throws
    {
        let folder = TemporaryFolder()
        let test = try TestClient(network: .profiles(), folder: folder)
        _ = try await test.client.value(of: .profile("a"))
        #expect(test.client.storeReport.place == .disk)
        try Data(count: 3).write(to: folder.url.appending(path: "letters.txt"))

        let lines = section("storage", of: test.client)
        #expect(lines.first == "place: disk")
        let user = try #require(lines.first { $0.hasPrefix("users/1/sanguine-client.sqlite: ") })
        #expect(user.hasSuffix(" bytes") && !user.hasSuffix(": 0 bytes"))
        #expect(!lines.contains { $0.contains("letters") || $0.contains(folder.url.path) })
    }

    @Test func `an unusable disk is named without the folder's path`() throws {
        let folder = TemporaryFolder()
        // A file at the path of the folder.
        try Data().write(to: folder.url)
        let test = try TestClient(folder: folder)

        let lines = section("storage", of: test.client)
        #expect(lines.first == "place: memoryInsteadOfDisk")
        #expect(lines.contains { $0.hasPrefix("last error: ") })
        #expect(!test.client.debugReport().description.contains(folder.url.path))
    }

    // MARK: - Privacy and bounds

    @Test func `no token, key or secret of a session is shown`() async throws {
        let client = try await ClientFixture().clientWithBalance()
        defer { client.close() }
        let token = try await client.session.accessToken()
        let secret = try client.services.vault.identity().deviceSecret

        let report = client.debugReport().description
        #expect(!report.contains(token) && !report.contains(secret))
        #expect(!report.contains(token.suffix(12)) && !report.contains(secret.prefix(12)))
    }

    @Test func `no value, parameter, lane, user's id or credential is shown`() async throws {
        let secret = Self.secret
        let test = try TestClient(network: .profiles(), authorizer: nil) { configuration in
            configuration.server = nil
            configuration.baseURL = URL(
                string: "https://ann:\(secret)@api.test/\(secret)?key=\(secret)"
            )
            configuration.baseHeaders = { ["X-Key": secret] }
            configuration.mutations = [LikeSong.self]
            configuration.connectivity = ManualConnectivity(isOnline: false)
        }
        let client = test.client
        try client.signIn(as: secret)
        client.set(Profile(name: secret), for: .fleeting(secret))
        try client.perform(LikeSong(song: secret))

        let report = client.debugReport().description
        #expect(!report.contains(secret))
        #expect(report.contains("user: named by the app, by \(secret.utf8.count) bytes"))
        #expect(report.contains("backend: https://api.test:443"))
        #expect(report.contains("lane 1: song.like, queued"))
    }

    @Test func `no value of a record is shown`() async throws {
        let fixture = RecordsFixture()
        let client = try fixture.client { $0.recordPolling = nil }
        try await client.synchronize()
        fixture.connectivity.disconnect()
        try client.perform(Count(id: .of(Self.secret), line: Self.secret, group: Self.secret))

        let report = client.debugReport().description
        #expect(report.contains("lane 1: counter.count"))
        #expect(!report.contains(Self.secret))
    }

    @Test func `a backend's error is shown by its code, and not by its text`() async throws {
        let problem = #"{"code": "not ok: \#(Self.secret)", "detail": "\#(Self.secret)"}"#
        let network = ScriptedTransport { _ in
            .respond(
                TransportResponse(
                    status: 400,
                    headers: ["content-type": "application/json"],
                    body: Data(problem.utf8)
                )
            )
        }
        let test = try TestClient(network: network) { $0.retries = false }
        await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .fleeting("a"))
        }

        #expect(section("failures", of: test.client).count == 1)
        #expect(!test.client.debugReport().description.contains(Self.secret))
    }

    @Test func `ten thousand entries and operations fit into the limit`() throws {
        let fixture = SongFixture()
        let client = try fixture.client { $0.memoryBytes = 1 << 30 }
        fixture.connectivity.disconnect()
        for number in 1...100 { try client.perform(LikeSong(song: "\(number)")) }
        for number in 1...10_000 {
            let query = ValueQuery<Profile>(
                "profile-\(number)-of-many",
                policy: .fresh(for: .hours(1))
            ) {
                try await $0.get("profiles")
            }
            client.set(Profile(name: "p"), for: query)
        }

        let report = client.debugReport().description
        #expect(report.utf8.count <= MetricsLimits.reportBytes)
        let entries = section("entries, the last used first", of: client)
        #expect(entries.count == MetricsLimits.reportRows + 1)
        #expect(entries.first?.hasPrefix("profile-10000-of-many ") == true)
        // The operations may have entries of their own.
        let others = try #require(entries.last?.split(separator: " ").compactMap { Int($0) }.first)
        #expect(others >= 10_000 - MetricsLimits.reportRows)
        let operations = section("outbox", of: client)
        #expect(operations.count == MetricsLimits.reportRows + 2)
        #expect(operations.last == "… and \(100 - MetricsLimits.reportRows) more")
    }

    @Test func `the same state gives the same report`() async throws {
        let test = try TestClient(network: .profiles())
        for id in ["a", "b", "c"] { _ = try await test.client.value(of: .fleeting(id)) }
        try await test.client.waitUntilIdle()

        #expect(test.client.debugReport() == test.client.debugReport())
    }

    // MARK: - Figures

    @Test func `each figure is listed at the top, once`() throws {
        let test = try TestClient()

        let lines = section("figures", of: test.client)
        let names = lines.compactMap { $0.split(separator: ":").first.map(String.init) }
        #expect(names == DebugFigure.allCases.map(\.rawValue))
        #expect(test.client.debugReport().sections.dropFirst().first?.title == "figures")
    }

    @Test func `reads, fetches and entries are counted`() async throws {
        let test = try TestClient(network: .profiles()) {
            // The zone would be compared with the account's, which is an entry too.
            ($0.memoryBytes, $0.followsDeviceTimeZone) = (1 << 20, false)
        }
        for id in ["a", "a", "b"] { _ = try await test.client.value(of: .fleeting(id)) }
        test.wall.advance(by: .minutes(10))
        _ = try await test.client.value(of: .fleeting("b"))
        try await test.client.waitUntilIdle()

        let report = test.client.debugReport()
        #expect(report[.readsCount] == 4 && report[.readsHit] == 1)
        #expect(report[.readsMissed] == 2 && report[.readsStale] == 1)
        #expect(report[.fetchesCount] == 3 && report[.fetchesInFlight] == 0)
        #expect(report[.memoryEntries] == 2 && report[.memoryLimit] == 1 << 20)
        #expect(report[.entriesFresh] == 1 && report[.entriesStale] == 1)
        #expect(report[.memoryBytes] ?? 0 > 0 && report[.declarationsInConflict] == 0)
    }

    @Test func `failures and the missing network are counted`() async throws {
        let network = ScriptedTransport { _ in .fail(.offline("no network")) }
        let connectivity = ManualConnectivity()
        let test = try TestClient(network: network) {
            ($0.retries, $0.connectivity) = (false, connectivity)
        }
        await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .fleeting("a"))
        }
        connectivity.disconnect()

        let report = test.client.debugReport()
        #expect(report[.networkOnline] == 0 && report[.appForeground] == 1)
        #expect(report[.fetchesFailed] == 1 && report[.entriesFailed] == 1)
        #expect(report[.balanceAvailable] == nil)
        #expect("\(report)".contains("\n  balance.available: unknown\n"))
    }

    @Test func `two declarations that store one name in different ways are counted`()
        async throws
    {
        let test = try TestClient(network: .profiles())
        _ = try await test.client.value(of: .fleeting("a"))
        _ = try await test.client.value(of: .fleeting("b", audience: .device))

        #expect(test.client.debugReport()[.declarationsInConflict] == 1)
    }

    @Test func `operations are counted, with the age of the oldest`() throws {
        let fixture = SongFixture()
        let client = try fixture.client()
        fixture.connectivity.disconnect()
        try client.perform(LikeSong(song: "a"))
        fixture.wall.advance(by: .minutes(2))
        try client.perform(LikeSong(song: "b"))

        let report = client.debugReport()
        #expect(report[.outboxOperations] == 2 && report[.outboxUnsent] == 2)
        #expect(report[.outboxOldest] == 120)
        #expect(report[.outboxLimit] == Int64(RecordLimits.operations))
        #expect(report[.outboxSettling] == 0 && report[.outboxRefused] == 0)
    }

    @Test func `the balance and its calls are figures`() async throws {
        let fixture = ClientFixture()
        let client = try await fixture.clientWithBalance()
        defer { client.close() }
        fixture.clock.advance(by: .seconds(5))

        let report = client.debugReport()
        #expect(report[.balanceAvailable] == 100 && report[.balanceHeld] == 0)
        #expect(report[.balanceAge] == 5 && report[.callsPending] == 0)
        #expect(report[.callsUnread] == 0 && report[.callsWaiting] == 0)
        #expect(report[.sessionRejected] == 0 && report[.sessionExpiresIn] ?? 0 > 0)
    }

    @Test func `the report survives encoding as JSON, with figures by name`() throws {
        let report = try TestClient().client.debugReport()
        let data = try JSONEncoder().encode(report)

        #expect(try JSONDecoder().decode(DebugReport.self, from: data) == report)
        let json = try JSONDecoder().decode(JSONValue.self, from: data)
        #expect(json["figures"]?["network.online"] == .integer(1))
    }
}

extension ReportText {
    fileprivate var text: String {
        let (sections, isCut) = bounded
        let moment = Timestamp(millisecondsSince1970: 0)
        return DebugReport(version: "", createdAt: moment, sections: sections, isCut: isCut)
            .description
    }
}

/// The bounds of the text, without a client.
@Suite("Text of reports", .bounded)
struct ReportTextTests {
    private var report = ReportText(at: Timestamp(millisecondsSince1970: 100_000_000))

    @Test mutating func `a long line is cut, and cannot imitate another one`() {
        report.section("part")
        report.add("a\nb\u{2028}c" + String(repeating: "ä", count: 1_000))

        let lines = report.text.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.last?.hasPrefix("  a b cä") == true)
        #expect(lines.last?.hasSuffix("ä…") == true)
        #expect(lines.last?.count == MetricsLimits.reportColumns + 3)
    }

    @Test mutating func `a report beyond the byte limit ends with a line that says so`() {
        for number in 1...1_000 {
            report.section("part \(number)")
            report.add([String](repeating: String(repeating: "🦊", count: 200), count: 3))
        }

        #expect(report.text.utf8.count <= MetricsLimits.reportBytes)
        #expect(report.text.hasSuffix("\n… the rest is left out\n"))
    }

    private static let ages: [(Duration, String)] = [
        (.seconds(0), "0 s ago"), (.seconds(59), "59 s ago"), (.seconds(60), "1 min ago"),
        (.hours(2), "2 h ago"), (.hours(49), "2 d ago"), (.seconds(-30), "in 30 s"),
    ]

    @Test(arguments: ages)
    func `an age has one unit`(age: Duration, text: String) {
        #expect(report.age(Timestamp(millisecondsSince1970: 100_000_000) - age) == text)
    }
}
