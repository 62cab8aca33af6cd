import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Settings of an app, as a version of it declares them.
private struct ReadingSettings: AppSettings {
    var hasOnboarded = false
    var remindsAt: Int? = 8
    var tags: [String] = []
}

/// The account is changed at once, and on the server later.
@Suite("Account changes", .bounded)
struct AccountUpdateTests {
    private let fixture = AccountFixture()

    @Test func `a change is visible at once and stored on the server`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        let receipt = try client.account.update {
            $0.language = "de"
            $0.displayName = "Ada"
            $0.settings["onboarding"] = true
        }
        let visible = client.account.current
        #expect(visible.language == "de" && visible.displayName == "Ada")
        #expect(visible.settings["onboarding"] == true)
        #expect(try await receipt?.outcome == .applied)
        let stored = try await fixture.stored()
        #expect(stored.language == "de" && stored.displayName == "Ada")
        #expect(stored.settings == ["onboarding": true])
    }

    @Test func `a change without a network survives a restart and is sent later`() async throws {
        let device = fixture.device()
        var client = try device.launch()
        _ = try await client.account.value()
        try await client.waitUntilIdle()
        device.connectivity.disconnect()
        try client.account.update { $0.settings["theme"] = "dark" }
        try device.kill()
        client = try device.launch()
        #expect(client.account.current.settings["theme"] == "dark")
        #expect(try await fixture.stored().settings == [:])
        device.connectivity.connect()
        try await client.waitUntilIdle()
        #expect(try await fixture.stored().settings == ["theme": "dark"])
        #expect(client.account.current.settings["theme"] == "dark")
    }

    @Test func `a change before the account is known is visible, and sent when it is`()
        async throws
    {
        let device = fixture.device()
        device.connectivity.disconnect()
        let client = try device.launch()
        defer { client.close() }
        try client.account.update { $0.settings["onboarding"] = true }
        let visible = client.account.current
        #expect(!visible.isKnown && visible.settings["onboarding"] == true)
        #expect(visible.timeZone == "Europe/Berlin" && visible.language == "en")
        device.connectivity.connect()
        try await client.waitUntilIdle()
        #expect(try await fixture.stored().settings == ["onboarding": true])
    }

    @Test func `two devices that change different members keep both`() async throws {
        let first = try fixture.device(seed: 1).launch()
        let second = try fixture.device(seed: 2).launch()
        defer { for client in [first, second] { client.close() } }
        _ = try await first.account.value()
        _ = try await second.account.value()
        let receipts = [
            try first.account.update { $0.settings["theme"] = "dark" },
            try second.account.update { $0.settings["sound"] = false },
            try second.account.update { $0.language = "tr" },
        ]
        for receipt in receipts { #expect(try await receipt?.outcome == .applied) }
        let stored = try await fixture.stored()
        #expect(stored.settings == ["theme": "dark", "sound": false] && stored.language == "tr")
    }

    @Test func `a change that changes nothing is not sent`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        let language = try await client.account.value().language
        #expect(try client.account.update { $0.language = language } == nil)
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `a later change replaces waiting ones of the same members`() async throws {
        let device = fixture.device()
        let client = try device.launch()
        defer { client.close() }
        _ = try await client.account.value()
        try await client.waitUntilIdle()
        device.connectivity.disconnect()
        for volume in 1...5 {
            try client.account.update { $0.settings["volume"] = .integer(Int64(volume)) }
        }
        try client.account.update { $0.language = "de" }
        #expect(client.outbox.pending.count == 2)
        #expect(client.account.current.settings["volume"] == 5)
    }

    @Test func `a refused change is undone and in the tray`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        let language = try await client.account.value().language
        let receipt = try client.account.update { $0.language = "no language" }
        guard case .refused(let problem) = try await receipt?.outcome else {
            Issue.record("The server accepted a wrong tag.")
            return
        }
        #expect(problem.code == .invalidContent && client.outbox.refused.count == 1)
        #expect(client.account.current.language == language)
    }

    @Test(arguments: ["Mars/Olympus", ""])
    func `an unknown time zone is refused at once`(zone: String) async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        let error = #expect(throws: SanguineError.self) {
            try client.account.update { $0.timeZone = zone }
        }
        #expect(error?.code == "invalid_content" && client.outbox.pending.isEmpty)
    }

    @Test func `settings of more than 4 KiB are refused at once`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        let error = #expect(throws: SanguineError.self) {
            try client.account.update {
                $0.settings["text"] = .string(String(repeating: "a", count: 4_096))
            }
        }
        #expect(error?.code == "invalid_content" && client.outbox.pending.isEmpty)
    }

    @Test func `an older state of the feed does not hide a change that was applied`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        let before = try await client.account.value()
        let receipt = try client.account.update { $0.language = "de" }
        _ = try await receipt?.outcome
        try await client.waitUntilIdle()
        var late = try await fixture.stored()
        late.language = before.language
        let change = RecordChange(
            collection: "$account",
            id: RecordID(late.id),
            seq: 1,
            deleted: false,
            value: try WireCoding.decode(JSONValue.self, from: try WireCoding.encode(late))
        )
        client.users.current.carry(change)
        #expect(client.account.current.language == "de")
    }

    @Test @MainActor func `a model has a change when update returns`() async throws {
        let client = try fixture.device().launch()
        defer { client.close() }
        _ = try await client.account.value()
        let model = client.account.model
        try model.update { $0.displayName = "Ada" }
        #expect(model.displayName == "Ada" && model.kind == .guest)
        #expect(model === client.account.model)
    }

    @Test func `updates begin with the current account and contain each change once`()
        async throws
    {
        let device = fixture.device()
        let client = try device.launch()
        defer { client.close() }
        _ = try await client.account.value()
        try await client.waitUntilIdle()
        device.connectivity.disconnect()
        var states = client.account.updates.makeAsyncIterator()
        #expect(await states.next()?.displayName == nil)
        try client.account.update { $0.displayName = "Ada" }
        #expect(await states.next()?.displayName == "Ada")
    }

    // MARK: - Declared settings

    @Test func `declared settings have defaults and keep members of newer versions`() async throws {
        try await fixture.patch(["settings": ["remindsAt": "noon", "future": ["a": 1]]])
        let client = try fixture.device().launch()
        defer { client.close() }
        let account = try await client.account.value()
        #expect(account.settings.decoded(as: ReadingSettings.self) == ReadingSettings())
        let receipt = try client.account.update(ReadingSettings.self) { $0.hasOnboarded = true }
        _ = try await receipt?.outcome
        let settings = try await fixture.stored().settings
        #expect(settings == ["hasOnboarded": true, "remindsAt": "noon", "future": ["a": 1]])
    }

    @Test(arguments: [UInt64](1...300))
    func `a merge patch turns any object into any other`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let (old, new) = (JSONValue.randomObject(&random), JSONValue.randomObject(&random))
        let patch = old.mergePatch(to: new)
        #expect(try patch.map { try old.merging($0) } ?? old == new, "seed \(seed)")
        #expect(patch.map { $0.covers($0) } ?? true, "seed \(seed)")
    }
}

extension JSONValue {
    /// Returns an object of a few levels without `null`, which a merge patch cannot express.
    fileprivate static func randomObject(
        _ random: inout SplitMix64,
        depth: Int = 0
    ) -> JSONValue {
        var members: [String: JSONValue] = [:]
        for name in ["a", "b", "c"] {
            switch Int.random(in: 0..<(depth < 3 ? 5 : 3), using: &random) {
            case 0: continue
            case 1: members[name] = .integer(.random(in: 0..<3, using: &random))
            case 2: members[name] = .array([.bool(.random(using: &random))])
            default: members[name] = randomObject(&random, depth: depth + 1)
            }
        }
        return .object(members)
    }
}
