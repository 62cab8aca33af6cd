import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Profile patches", .bounded)
struct ProfilePatchTests {
    private let account = Account(
        id: .numbered(1),
        kind: .guest,
        timeZone: "UTC",
        language: "en",
        displayName: "Ada",
        settings: ["theme": "dark", "sounds": ["on": true, "volume": 3]],
        createdAt: ManualClock.start
    )

    private func refused(_ patch: JSONValue) -> ProblemCode? {
        refusal { () throws(Problem) in try ProfilePatch.apply(patch, to: account) }?.code
    }

    @Test func `a patch changes only the members that it names`() throws {
        let patched = try ProfilePatch.apply(
            ["timeZone": "Europe/Istanbul", "language": "tr"],
            to: account
        )
        var expected = account
        (expected.timeZone, expected.language) = ("Europe/Istanbul", "tr")

        #expect(patched == expected)
        #expect(try ProfilePatch.apply([:], to: account) == account)
    }

    @Test(
        arguments: [
            ("id", "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa", "never changes"),
            ("kind", "registered", "POST /v1/accounts/upgrade"),
            ("email", "eve@example.org", "POST /v1/account/email"),
            ("email", .null, "POST /v1/account/email"), ("plan", "premium", "POST /v1/purchases"),
            ("createdAt", "1970-01-01T00:00:00Z", "never changes"),
        ] as [(String, JSONValue, String)]
    )
    func `a member that the owner may not change is refused with its name and a way`(
        name: String,
        value: JSONValue,
        way: String
    ) {
        let patch = JSONValue.object([name: value, "language": "tr"])
        let problem = refusal { () throws(Problem) in
            try ProfilePatch.apply(patch, to: account)
        }
        #expect(problem?.code == .invalidContent)
        #expect(problem?.detail.contains("'\(name)'") == true)
        #expect(problem?.detail.contains(way) == true)
    }

    @Test func `every member of an account is either changed or refused`() throws {
        var full = account
        full.email = "ada@example.org"
        let members = try JSONValue(encoding: full)
        guard case .object(let names) = members else {
            Issue.record("An account is an object.")
            return
        }
        let changed = ["timeZone", "language", "displayName", "settings"]
        #expect(names.keys.filter { refused(.object([$0: .null])) == nil } == ["displayName"])
        for name in changed {
            #expect(refused(.object([name: members[name] ?? .null])) == nil, "\(name)")
        }
    }

    @Test func `unknown members are ignored`() throws {
        let patch: JSONValue = ["balance": 1_000, "colour": ["is": .array(["red"])]]
        #expect(try ProfilePatch.apply(patch, to: account) == account)
    }

    @Test func `settings are merged deeply, and null removes members`() throws {
        let patch: JSONValue = [
            "settings": ["theme": .null, "sounds": ["volume": 5], "seen": true]
        ]

        #expect(
            try ProfilePatch.apply(patch, to: account).settings
                == ["sounds": ["on": true, "volume": 5], "seen": true]
        )
    }

    @Test func `a display name can be changed and removed`() throws {
        #expect(
            try ProfilePatch.apply(["displayName": "Grace"], to: account).displayName == "Grace"
        )
        #expect(try ProfilePatch.apply(["displayName": .null], to: account).displayName == nil)
    }

    @Test(arguments: [
        "", String(repeating: "x", count: 101), "Ada\u{0}", "Ada\nLovelace",
        "A" + String(repeating: "\u{301}", count: 1_000),
    ])
    func `a display name is plain text of 1 to 100 characters`(name: String) {
        #expect(refused(["displayName": .string(name)]) == .invalidContent)
    }

    @Test(arguments: [
        "UTC", "GMT", "Europe/Istanbul", "America/Argentina/Ushuaia", "Etc/GMT+5", "EST",
    ])
    func `an IANA time zone is accepted`(name: String) throws {
        #expect(try ProfilePatch.apply(["timeZone": .string(name)], to: account).timeZone == name)
    }

    @Test(arguments: [
        "", "CEST", "PST", "EST5", "GMT+3", "+03:00", "Europe", "Europe/", "/", "Mars/Olympus_Mons",
        "europe/istanbul", "../../etc/passwd", "Europe/../Europe/Istanbul", "Europe/Istanbul\u{0}",
        "Europe/Istanbul ", "Europe/İstanbul",
    ])
    func `other text is not a time zone`(name: String) {
        #expect(refused(["timeZone": .string(name)]) == .invalidContent)
    }

    @Test(arguments: ["tr", "en-GB", "zh-Hant-TW", "de-CH-1996", "sl-rozaj-biske-1994"])
    func `a language tag is accepted`(tag: String) throws {
        #expect(try ProfilePatch.apply(["language": .string(tag)], to: account).language == tag)
    }

    @Test(arguments: [
        "", "e", "en_GB", "en-", "-en", "en--GB", "englishes-GB", "türkçe", "\u{212A}o", "en\n",
        "en-" + String(repeating: "a-", count: 20) + "a",
    ])
    func `other text is not a language tag`(tag: String) {
        #expect(refused(["language": .string(tag)]) == .invalidContent)
    }

    @Test(arguments: ["timeZone", "language", "displayName", "settings"])
    func `a value of another type is refused`(name: String) {
        #expect(refused(.object([name: 7])) == .invalidContent)
        #expect(refused(.object([name: .array([])])) == .invalidContent)
        #expect(refused(.object([name: name == "displayName" ? true : .null])) == .invalidContent)
    }

    @Test func `settings take at most 4 KiB as JSON, after the merge`() throws {
        func settings(_ bytes: Int) -> JSONValue {
            // {"a":"…"} has eight bytes around the text.
            let text = String(repeating: "x", count: bytes - 8)
            return ["settings": ["theme": .null, "sounds": .null, "a": .string(text)]]
        }
        let full = try ProfilePatch.apply(settings(4_096), to: account)

        #expect(ResponseEncoder.encode(full.settings).count == 4_096)
        #expect(refused(settings(4_097)) == .invalidContent)
        let more = refusal { () throws(Problem) in
            try ProfilePatch.apply(["settings": ["b": 1]], to: full)
        }
        #expect(more?.code == .invalidContent)
    }

    @Test func `a patch takes a number of the feed only if it changes something`()
        async throws
    {
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            clock: ManualClock()
        )
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = try await authority.guest(
            GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        )
        let id = guest.signedIn.account.id
        let (_, unchanged) = try await authority.patchAccount(id, ["language": "en"])
        let (account, head) = try await authority.patchAccount(id, ["language": "tr"])
        let (_, plan) = try await authority.setPlan(.premium, of: id)
        let (_, samePlan) = try await authority.setPlan(.premium, of: id)

        #expect(account.language == "tr")
        #expect([unchanged, head, plan, samePlan] == [2, 3, 4, 4])
        #expect(try await authority.account(id).head == 4)
        #expect(try await authority.balance(id).head == 4)
    }
}
