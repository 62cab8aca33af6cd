import Foundation
import SanguineModel
import TestSupport
import Testing

/// The format of every message on the wire, as text.
///
/// Installed apps use this version for years. If a test fails here, a message has changed. For a
/// new optional field, add it and the new line below. For any other change, create a new version of
/// the wire (`/v2`) and keep this one.
@Suite("Wire fingerprint, version 1", .bounded)
struct WireFingerprintTests {
    private static let id = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa")
    private static let at = Timestamp(millisecondsSince1970: 1_763_752_719_250)

    /// An example of every message, with all fields, and its text.
    private static func examples(_ id: Identifier) -> [(any Codable & Hashable, String)] {
        accounts(id) + logins(id) + credentials + balances(id) + functions(id) + live(id) + problems
    }

    private func text(_ message: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(message), as: UTF8.self)
    }

    private func readBack<Message: Codable & Hashable>(_ message: Message) throws -> Bool {
        try JSONDecoder().decode(Message.self, from: JSONEncoder().encode(message)) == message
    }

    @Test func `the messages of version 1 have not changed`() throws {
        for (message, committed) in Self.examples(try #require(Self.id)) {
            #expect(
                try text(message) == committed,
                "\(type(of: message)) changed on the wire: that needs a new version of the wire."
            )
        }
    }

    @Test func `every message survives a round trip`() throws {
        for (message, _) in Self.examples(try #require(Self.id)) {
            #expect(try readBack(message), "\(type(of: message))")
        }
    }

    @Test func `fields added by a newer version are ignored`() throws {
        for (message, committed) in Self.examples(try #require(Self.id)) {
            #expect(try decodes(message, from: #"{"new":[1],"# + committed.dropFirst()))
        }
    }

    private func decodes<Message: Codable & Hashable>(
        _ message: Message,
        from json: String
    ) throws -> Bool {
        try JSONDecoder().decode(Message.self, from: Data(json.utf8)) == message
    }

    @Test func `optional fields are omitted instead of null`() throws {
        let id = try #require(Self.id)
        let account = Account(
            id: id,
            kind: .guest,
            timeZone: "UTC",
            language: "en",
            createdAt: Self.at
        )
        let device = GuestRequest(deviceId: "d", deviceSecret: "s")

        #expect(try !text(account).contains("null"))
        #expect(try text(device) == #"{"deviceId":"d","deviceSecret":"s"}"#)
        #expect(try text(ConsumeRequest()) == "{}")
        #expect(try text(ListPage<LedgerEntry>(items: [])) == #"{"hasMore":false,"items":[]}"#)
    }

    @Test func `the names of kinds, phases and plans are those of version 1`() {
        #expect(
            LedgerEntry.Kind.allCases.map(\.rawValue)
                == [
                    "grant", "spend", "hold", "release", "capture", "expire", "debit",
                    "merge_out", "merge_in", "purchase", "refund", "expire_grant",
                ]
        )
        for kind in LedgerEntry.Kind.allCases {
            #expect(LedgerEntry.Kind(rawValue: kind.rawValue) == kind)
        }
        #expect(
            [OperationState.Phase.unknown, .running, .settled].map(\.rawValue)
                == ["unknown", "running", "settled"]
        )
        #expect([Account.Kind.guest, .registered].map(\.rawValue) == ["guest", "registered"])
        #expect([Account.Plan.free, .premium].map(\.rawValue) == ["free", "premium"])
        #expect([Price.Kind.fixed, .usage].map(\.rawValue) == ["fixed", "usage"])
    }

    @Test func `the limits of the wire are those of version 1`() {
        #expect(WireLimits.bodyBytes == 1_048_576)
        #expect(WireLimits.blobBytes == 26_214_400 && WireLimits.blobPixels == 50_000_000)
        #expect(WireLimits.deviceIdCharacters == 16...128)
        #expect(WireLimits.deviceSecretBytes == 32)
        #expect(WireLimits.idempotencyKeyCharacters == 1...128)
        #expect(WireLimits.settingsBytes == 4_096)
        #expect(WireLimits.defaultPage == 20 && WireLimits.largestPage == 100)
        #expect(WireLimits.amount == 1_000_000_000_000)
    }
}

extension WireFingerprintTests {
    private static var credentials: [(any Codable & Hashable, String)] {
        [
            (
                UpgradeRequest(email: "a@b.org", password: "p"),
                #"{"email":"a@b.org","password":"p"}"#
            ),
            (
                VerificationStarted(verification: .init(sentTo: "a•••@b.org", expiresAt: at)),
                #"{"verification":{"expiresAt":"2025-11-21T19:18:39.250Z","sentTo":"a•••@b.org"}}"#
            ),
            (CodeRequest(code: "12345678"), #"{"code":"12345678"}"#),
            (
                SessionRequest(email: "a@b.org", password: "p"),
                #"{"email":"a@b.org","password":"p"}"#
            ),
            (
                SessionRequest(provider: "apple", identityToken: "t", nonce: "n"),
                #"{"identityToken":"t","nonce":"n","provider":"apple"}"#
            ),
            (
                SessionRequest(email: "a@b.org", password: "p", refreshToken: "r"),
                #"{"email":"a@b.org","password":"p","refreshToken":"r"}"#
            ),
            (
                MergeRequest(mergeToken: "m", refreshToken: "r"),
                #"{"mergeToken":"m","refreshToken":"r"}"#
            ),
            (PasswordResetRequest(email: "a@b.org"), #"{"email":"a@b.org"}"#),
            (
                PasswordResetVerification(email: "a@b.org", code: "12345678", password: "p"),
                #"{"code":"12345678","email":"a@b.org","password":"p"}"#
            ),
            (
                PasswordChange(current: "p", password: "q"),
                #"{"current":"p","password":"q"}"#
            ),
            (
                EmailChange(email: "a@b.org", password: "p"),
                #"{"email":"a@b.org","password":"p"}"#
            ),
        ]
    }

    private static func accounts(_ id: Identifier) -> [(any Codable & Hashable, String)] {
        let account = Account(
            id: id,
            kind: .registered,
            email: "ada@example.org",
            timeZone: "Europe/Istanbul",
            language: "tr",
            displayName: "Ada",
            plan: .premium,
            settings: ["onboarded": true],
            createdAt: at
        )
        let session = Session(accessToken: "a.b.c", expiresIn: 900, refreshToken: "r")
        let accountText = """
            {"createdAt":"2025-11-21T19:18:39.250Z","displayName":"Ada","email":"ada@example.org",\
            "id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","kind":"registered","language":"tr",\
            "plan":"premium","settings":{"onboarded":true},"timeZone":"Europe/Istanbul"}
            """
        let sessionText = #"{"accessToken":"a.b.c","expiresIn":900,"refreshToken":"r"}"#
        return [
            (account, accountText),
            (session, sessionText),
            (
                GuestRequest(deviceId: "d", deviceSecret: "s", timeZone: "UTC", language: "en"),
                #"{"deviceId":"d","deviceSecret":"s","language":"en","timeZone":"UTC"}"#
            ),
            (
                AttestationChallenge(challenge: "c", expiresIn: 300),
                #"{"challenge":"c","expiresIn":300}"#
            ),
            (
                DeviceAttestation(keyId: "k", attestationObject: "o", challenge: "c"),
                #"{"attestationObject":"o","challenge":"c","keyId":"k"}"#
            ),
            (
                DeviceAssertion(keyId: "k", assertion: "a", challenge: "c"),
                #"{"assertion":"a","challenge":"c","keyId":"k"}"#
            ),
            (
                GuestRequest(
                    deviceId: "d",
                    deviceSecret: "s",
                    attestation: .init(keyId: "k", attestationObject: "o", challenge: "c"),
                    deviceCheckToken: "t"
                ),
                #"{"attestation":{"attestationObject":"o","challenge":"c","keyId":"k"},"#
                    + #""deviceCheckToken":"t","deviceId":"d","deviceSecret":"s"}"#
            ),
            (
                RefreshRequest(
                    refreshToken: "r",
                    assertion: .init(keyId: "k", assertion: "a", challenge: "c"),
                    account: account.id
                ),
                #"{"account":"\#(account.id)","#
                    + #""assertion":{"assertion":"a","challenge":"c","keyId":"k"},"#
                    + #""refreshToken":"r"}"#
            ),
            (
                SignedIn(account: account, session: session),
                #"{"account":\#(accountText),"session":\#(sessionText)}"#
            ),
            (
                IdentityRequest(provider: "apple", identityToken: "a.b.c", nonce: "n"),
                #"{"identityToken":"a.b.c","nonce":"n","provider":"apple"}"#
            ),
            (RefreshRequest(refreshToken: "r"), #"{"refreshToken":"r"}"#),
            (Refreshed(session: session), #"{"session":\#(sessionText)}"#),
        ]
    }

    private static func logins(_ id: Identifier) -> [(any Codable & Hashable, String)] {
        [
            (
                GuestRequest(deviceId: "d", deviceSecret: "s", guest: id),
                """
                {"deviceId":"d","deviceSecret":"s",\
                "guest":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"}
                """
            ),
            (FormerGuest(id: id), #"{"id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"}"#),
            (
                LoginInfo(id: "l", kind: .email, email: "ada@example.org", boundAt: at),
                """
                {"boundAt":"2025-11-21T19:18:39.250Z","email":"ada@example.org","id":"l",\
                "kind":"email"}
                """
            ),
            (
                LoginInfo(id: "l", kind: .identity, provider: "apple", boundAt: at),
                """
                {"boundAt":"2025-11-21T19:18:39.250Z","id":"l","kind":"identity",\
                "provider":"apple"}
                """
            ),
            (LoginRemoval(refreshToken: "r"), #"{"refreshToken":"r"}"#),
        ]
    }

    private static func balances(_ id: Identifier) -> [(any Codable & Hashable, String)] {
        let balance = Balance(
            unit: "tokens",
            available: 97,
            held: 3,
            head: 412,
            asOf: at,
            operations: ["k": OperationState(.running, held: 3)],
            expiring: [ExpiringAmount(amount: 5, at: at)]
        )
        let balanceText = """
            {"asOf":"2025-11-21T19:18:39.250Z","available":97,\
            "expiring":[{"amount":5,"at":"2025-11-21T19:18:39.250Z"}],"head":412,"held":3,\
            "operations":{"k":{"held":3,"phase":"running"}},"unit":"tokens"}
            """
        let hold = Hold(id: id, amount: 3, expiresAt: at)
        let holdText = """
            {"amount":3,"expiresAt":"2025-11-21T19:18:39.250Z",\
            "id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"}
            """
        let quota = Quota(name: "readings", limit: 3, used: 1, resetsAt: at, unlimited: false)
        let quotaText = """
            {"limit":3,"name":"readings","remaining":2,"resetsAt":"2025-11-21T19:18:39.250Z",\
            "unlimited":false,"used":1}
            """
        let entry = LedgerEntry(
            id: id,
            kind: .spend,
            amount: -3,
            balanceAfter: 97,
            reason: "tea",
            at: at
        )
        let entryText = """
            {"amount":-3,"at":"2025-11-21T19:18:39.250Z","balanceAfter":97,\
            "id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","kind":"spend","reason":"tea"}
            """
        return [
            (balance, balanceText),
            (BalanceAnswer(balance: balance), #"{"balance":\#(balanceText)}"#),
            (quota, quotaText),
            (
                Quota(name: "readings", limit: 3, used: 5, resetsAt: at, unlimited: true),
                """
                {"limit":3,"name":"readings","resetsAt":"2025-11-21T19:18:39.250Z",\
                "unlimited":true,"used":5}
                """
            ),
            (
                Quota(
                    name: "readings",
                    limit: 3,
                    used: 3,
                    resetsAt: at,
                    unlimited: false,
                    lifts: ["premium"]
                ),
                """
                {"lifts":["premium"],"limit":3,"name":"readings","remaining":0,\
                "resetsAt":"2025-11-21T19:18:39.250Z","unlimited":false,"used":3}
                """
            ),
            (
                QuotaAnswer(balance: balance, quota: quota),
                #"{"balance":\#(balanceText),"quota":\#(quotaText)}"#
            ),
            (Items(items: [quota]), #"{"items":[\#(quotaText)]}"#),
            (ConsumeRequest(amount: 2), #"{"amount":2}"#),
            (SpendRequest(amount: 3, reason: "tea"), #"{"amount":3,"reason":"tea"}"#),
            (HoldRequest(amount: 3, expiresIn: 60), #"{"amount":3,"expiresIn":60}"#),
            (hold, holdText),
            (
                HoldAnswer(hold: hold, balance: balance),
                #"{"balance":\#(balanceText),"hold":\#(holdText)}"#
            ),
            (CaptureRequest(amount: 2), #"{"amount":2}"#),
            (
                ListPage(items: [entry], hasMore: true, nextCursor: "c"),
                #"{"hasMore":true,"items":[\#(entryText)],"nextCursor":"c"}"#
            ),
            (
                ListPage(
                    items: [entry],
                    nextCursor: "c",
                    count: ListCount(number: 1_000, isExact: false)
                ),
                #"{"count":{"isExact":false,"number":1000},"hasMore":true,"items":["#
                    + #"\#(entryText)],"nextCursor":"c"}"#
            ),
        ]
    }

    private static func functions(_ id: Identifier) -> [(any Codable & Hashable, String)] {
        [
            (
                FunctionDescription(
                    name: "ask",
                    price: .usage(perMillionInput: 100, perMillionOutput: 400),
                    cache: "none",
                    stream: false,
                    inputs: ["question": "string"]
                ),
                """
                {"cache":"none","inputs":{"question":"string"},"name":"ask","price":{"amount":1,\
                "kind":"usage","perMillionInput":100,"perMillionOutput":400},"stream":false}
                """
            ),
            (Price.fixed(1), #"{"amount":1,"kind":"fixed"}"#),
            (
                Price.usage(
                    perMillionInput: 100,
                    perMillionOutput: 400,
                    perMillionCachedInput: 10,
                    perMillionReasoning: 800
                ),
                """
                {"amount":1,"kind":"usage","perMillionCachedInput":10,"perMillionInput":100,\
                "perMillionOutput":400,"perMillionReasoning":800}
                """
            ),
            (
                FunctionRequest(input: Echo.Input(text: "hi", delayMs: 5)),
                #"{"input":{"delayMs":5,"text":"hi"}}"#
            ),
            (
                FunctionRequest(input: Ask.Input(question: "why?")),
                #"{"input":{"question":"why?"}}"#
            ),
            (
                FunctionRequest(
                    input: Ask.Input(question: "why?"),
                    thread: id,
                    attachments: ["ab"]
                ),
                """
                {"attachments":["ab"],"input":{"question":"why?"},\
                "thread":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"}
                """
            ),
            (
                BlobFacts(id: "ab", size: 9, type: "image/png", width: 3, height: 2),
                #"{"height":2,"id":"ab","size":9,"type":"image/png","width":3}"#
            ),
            (
                BlobFacts(
                    id: "ab",
                    size: 9,
                    type: "image/png",
                    width: 3,
                    height: 2,
                    placeholder: ThumbHash(base64: "1QcSHQRnh493V4dIh4eXh1h4kJUI")
                ),
                """
                {"height":2,"id":"ab","placeholder":"1QcSHQRnh493V4dIh4eXh1h4kJUI","size":9,\
                "type":"image/png","width":3}
                """
            ),
            (
                UploadStatus(
                    id: "0-ab",
                    length: 9,
                    offset: 9,
                    expiresAt: at,
                    file: BlobFacts(id: "ab", size: 9, type: "video/mp4")
                ),
                """
                {"expiresAt":"2025-11-21T19:18:39.250Z",\
                "file":{"id":"ab","size":9,"type":"video/mp4"},"id":"0-ab","length":9,"offset":9}
                """
            ),
            (UploadList(items: []), #"{"items":[]}"#),
            (
                BlobLink(url: "/v1/public/blobs/ab", expiresAt: at),
                #"{"expiresAt":"2025-11-21T19:18:39.250Z","url":"/v1/public/blobs/ab"}"#
            ),
            (Quote(estimate: 2, hold: 5), #"{"estimate":2,"hold":5}"#),
            (
                Price.quota("readings", otherwise: 5).charged(.onStart),
                """
                {"amount":0,"kind":"fixed","quota":{"charged":"onStart","name":"readings",\
                "otherwise":5,"units":1}}
                """
            ),
            (
                Price.fixed(5).charged(.onCompletion),
                #"{"amount":5,"charged":"onCompletion","kind":"fixed"}"#
            ),
            (
                AttachmentRules(count: 2, minimum: 1, bytes: 9, types: ["image/png"], tokens: 3),
                #"{"bytes":9,"count":2,"minimum":1,"tokens":3,"types":["image/png"]}"#
            ),
            (
                Quote(estimate: 0, hold: 0, quota: .init("readings", otherwise: 5)),
                """
                {"estimate":0,"hold":0,"quota":{"name":"readings","otherwise":5,"units":1}}
                """
            ),
            (
                FunctionResult(
                    output: "becau",
                    charged: 2,
                    tokensRemaining: 95,
                    held: 0,
                    head: 7,
                    cached: false,
                    operation: id,
                    finishReason: "length"
                ),
                """
                {"cached":false,"charged":2,"finishReason":"length","head":7,"held":0,\
                "operation":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","output":"becau",\
                "tokensRemaining":95}
                """
            ),
            (
                FunctionResult(
                    output: "because",
                    charged: 2,
                    tokensRemaining: 95,
                    held: 0,
                    head: 7,
                    cached: false,
                    operation: id
                ),
                """
                {"cached":false,"charged":2,"head":7,"held":0,\
                "operation":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","output":"because",\
                "tokensRemaining":95}
                """
            ),
        ]
    }

    private static func live(_ id: Identifier) -> [(any Codable & Hashable, String)] {
        let change = RecordChange(
            collection: "notes",
            id: RecordID(id),
            seq: 7,
            value: ["text": "hi"]
        )
        return [
            (
                LiveChange(change, head: 9),
                """
                {"collection":"notes","deleted":false,"head":9,\
                "id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","seq":7,"through":7,\
                "value":{"text":"hi"}}
                """
            ),
            (LiveTicket(ticket: "abc", expiresIn: 60), #"{"expiresIn":60,"ticket":"abc"}"#),
            (
                PullAnswer(
                    changes: [change],
                    next: 7,
                    head: 9,
                    hasMore: true,
                    reset: true,
                    horizon: 5,
                    epoch: Epoch("e1"),
                    operations: [PushResult(id: id, status: .applied, head: 7)]
                ),
                """
                {"changes":[{"collection":"notes","deleted":false,\
                "id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","seq":7,"value":{"text":"hi"}}],\
                "epoch":"e1","hasMore":true,"head":9,"horizon":5,"next":7,"operations":[{"head":7,\
                "id":"0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa","status":"applied"}],"reset":true}
                """
            ),
        ]
    }

    private static var problems: [(any Codable & Hashable, String)] {
        var poor = Problem(.insufficientTokens, "Get more.", retryAfter: 9)
        (poor.available, poor.held, poor.required) = (1, 2, 3)
        (poor.resetsAt, poor.lifts, poor.charged) = (at, ["premium"], 4)
        poor.upstream = UpstreamReason(code: "a", type: "b", param: "c", message: "d")
        return [
            (
                poor,
                """
                {"available":1,"charged":4,"code":"insufficient_tokens",\
                "detail":"Get more.","held":2,\
                "lifts":["premium"],"required":3,"resetsAt":"2025-11-21T19:18:39.250Z",\
                "retryAfter":9,"status":402,"title":"The balance is too low.",\
                "type":"urn:sanguine:problem:insufficient_tokens",\
                "upstream":{"code":"a","message":"d","param":"c","type":"b"}}
                """
            )
        ]
    }
}
