import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// The test kit behaves as the server does, so that an app's tests are meaningful.
    @Suite("The test kit and the server", .bounded(.seconds(60)))
    struct KitAndServerTests {
        /// The same clock for both, so that everything derived from the time is equal.
        private let clock = ManualWallClock()

        /// Plays the same calls against a server and against the kit.
        ///
        /// - Returns: The statuses of the server's responses, and the differences of the kit's.
        private func played(
            _ play: @escaping @Sendable (inout WireScript) async throws -> Void
        ) async throws -> (statuses: [Int], differences: [String]) {
            let server = try await LocalServer.with(clock: clock) { server in
                let base = "http://127.0.0.1:\(server.port)"
                var script = WireScript(URLSessionTransport(), base: base)
                try await play(&script)
                return script.seen
            }
            let authority = InMemoryAuthority(clock: clock)
            authority.serve(Echo.self) { $0.text }
            var script = WireScript(authority, base: "http://sanguine.test")
            try await play(&script)
            let differences = zip(server, script.seen).filter { $0 != $1 }
                .map { "The server has \($0), the kit \($1)." }
            return (server.map(\.status), differences)
        }

        @Test func `devices sign in, refresh and sign out alike`() async throws {
            let (statuses, differences) = try await played { script in
                let guest = GuestRequest(deviceId: "a-device-of-both", deviceSecret: secret("A"))
                _ = try await script.signIn()
                try await script.call("again", "POST", "/v1/accounts/guest", guest)
                var other = guest
                other.deviceSecret = secret("E")
                try await script.call("other secret", "POST", "/v1/accounts/guest", other)
                other.deviceId = "short"
                try await script.call("short id", "POST", "/v1/accounts/guest", other)
                try await script.call("no object", "POST", "/v1/accounts/guest", "nonsense")
                try await script.call("no members", "POST", "/v1/accounts/guest", EmptyObject())
                try await script.call(
                    "no JSON",
                    "POST",
                    "/v1/accounts/guest",
                    guest,
                    fields: ["Content-Type": "text/plain"]
                )
                let session = try await script.signIn()
                let request = RefreshRequest(refreshToken: session.refreshToken)
                let answer = try await script.call(
                    "refresh",
                    "POST",
                    "/v1/sessions/refresh",
                    request
                )
                let next = try JSONDecoder().decode(Refreshed.self, from: answer.body).session
                try await script.call("its answer lost", "POST", "/v1/sessions/refresh", request)
                let second = RefreshRequest(refreshToken: next.refreshToken)
                try await script.call("the next", "POST", "/v1/sessions/refresh", second)
                try await script.call("the first again", "POST", "/v1/sessions/refresh", request)
                let nonsense = RefreshRequest(refreshToken: "nonsense")
                try await script.call("nonsense", "POST", "/v1/sessions/refresh", nonsense)
                _ = try await script.signIn()
                try await script.call("leave", "DELETE", "/v1/sessions/current")
                try await script.call("after it", "GET", "/v1/account")
            }
            #expect(differences.isEmpty)
            #expect(
                statuses == [
                    201, 200, 401, 422, 400, 422, 415, 200, 200, 200, 200, 401, 401, 200, 204, 401,
                ]
            )
        }

        @Test func `unauthenticated and foreign requests are refused alike`() async throws {
            let (statuses, differences) = try await played { script in
                try await script.call("nobody", "GET", "/v1/balance")
                script.token = "nonsense"
                try await script.call("a wrong token", "GET", "/v1/balance")
                _ = try await script.signIn()
                let other = ["X-User-Id": "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"]
                try await script.call("another", "GET", "/v1/balance", fields: other)
                try await script.call("no path", "GET", "/v1/elsewhere")
                try await script.call("no method", "PUT", "/v1/balance")
                try await script.call("head", "HEAD", "/v1/balance")
            }
            #expect(differences.isEmpty)
            #expect(statuses == [401, 401, 201, 403, 404, 405, 200])
        }

        @Test func `balances, holds and quotas behave alike`() async throws {
            let (statuses, differences) = try await played { script in
                _ = try await script.signIn()
                let balance = try await script.call("balance", "GET", "/v1/balance")
                let tag = ["If-None-Match": balance.header("etag") ?? ""]
                try await script.call("the same", "GET", "/v1/balance", fields: tag)
                try await script.call("asked", "GET", "/v1/balance?operations=one,two")
                try await script.spend(30, key: nil)
                try await script.spend(30, key: "one")
                try await script.spend(30, key: "one")
                try await script.spend(31, key: "one")
                try await script.spend(0, key: "two")
                try await script.spend(1_000, key: "three")
                try await script.spend(1, key: "bad key")
                let hold = try await script.call(
                    "hold",
                    "POST",
                    "/v1/holds",
                    HoldRequest(amount: 20, expiresIn: nil),
                    key: "hold"
                )
                let id = try JSONDecoder().decode(JSONValue.self, from: hold.body)["hold"]?["id"]
                let path = "/v1/holds/\(id?.string ?? "")"
                let (much, some) = (CaptureRequest(amount: 21), CaptureRequest(amount: 5))
                try await script.call("too much", "POST", "\(path)/capture", much, key: "c1")
                try await script.call("capture", "POST", "\(path)/capture", some, key: "c2")
                try await script.call("again", "POST", "\(path)/capture", some, key: "c3")
                try await script.call("release", "POST", "\(path)/release", key: "c4")
                try await script.call("no hold", "POST", "/v1/holds/none/release", key: "c5")
                for key in ["q1", "q2", "q3", "q4"] {
                    let path = "/v1/quotas/readings/consume"
                    try await script.call(key, "POST", path, EmptyObject(), key: key)
                }
                try await script.call("no quota", "POST", "/v1/quotas/none/consume", key: "q5")
                try await script.call("quotas", "GET", "/v1/quotas")
                try await script.call("ledger", "GET", "/v1/ledger?limit=2&fields=amount,kind")
                try await script.call("no limit", "GET", "/v1/ledger?limit=0")
                try await script.call("no cursor", "GET", "/v1/ledger?cursor=nonsense")
            }
            #expect(differences.isEmpty)
            #expect(
                statuses == [
                    201, 200, 304, 200, 400, 200, 200, 422, 422, 402, 400, 201, 422, 200, 200, 409,
                    404, 200, 200, 200, 402, 404, 200, 200, 400, 400,
                ]
            )
        }

        @Test func `functions are called, repeated and refused alike`() async throws {
            let (statuses, differences) = try await played { script in
                _ = try await script.signIn()
                let input = FunctionRequest(input: Echo.Input(text: "hello"))
                try await script.call("call", "POST", "/v1/functions/echo", input, key: "one")
                try await script.call("again", "POST", "/v1/functions/echo", input, key: "one")
                try await script.call("quote", "POST", "/v1/functions/echo/quote", input)
                try await script.call("unknown", "POST", "/v1/functions/none", input, key: "two")
                // Each function has its own message for an invalid input.
                try await script.call(
                    "wrong",
                    "POST",
                    "/v1/functions/echo",
                    FunctionRequest(input: EmptyObject()),
                    key: "three",
                    comparesBody: false
                )
                try await script.call("balance", "GET", "/v1/balance?operations=one,three")
            }
            #expect(differences.isEmpty)
            #expect(statuses == [201, 200, 200, 200, 404, 422, 200])
        }

        @Test func `records are pushed, pulled, listed and streamed alike`() async throws {
            let (statuses, differences) = try await played { script in
                _ = try await script.signIn()
                try await script.push("create", .note("a", text: "first"))
                try await script.push("again", .note("a", text: "first"))
                try await script.push("other content", .note("a", text: "second"))
                try await script.push("exists", .note("a", text: "first", operation: 1))
                try await script.push("unknown", .note("b", text: "", mutator: "none"))
                try await script.push("no lane", .note("b", text: "", lane: ""))
                try await script.push("shared", .note("p", text: "post", collection: "posts"))
                try await script.push("none", .note("c", text: "", collection: "none"))
                let first = PushedOperation.note("a", text: "first").id
                try await script.call("pull", "GET", "/v1/sync/pull?since=0&operations=\(first)")
                try await script.call("part", "GET", "/v1/sync/pull?since=2&limit=1")
                try await script.call("beyond", "GET", "/v1/sync/pull?since=1000")
                try await script.call("no number", "GET", "/v1/sync/pull?since=none")
                try await script.call("no id", "GET", "/v1/sync/pull?operations=none")
                let notes = "/v1/collections/notes/records"
                try await script.call("list", "GET", "\(notes)?limit=1")
                try await script.call("one", "GET", "\(notes)/a")
                try await script.call("no record", "GET", "\(notes)/z")
                try await script.call("no index", "GET", "\(notes)?order=text")
                try await script.call("no list", "GET", "/v1/collections/none/records")
                try await script.live("live", "since=2", until: ".4\n")
                try await script.live("live, too far", "since=1000", until: ".4\n")
                try await script.live("live, no number", "since=none", until: "}")
                script.token = nil
                try await script.live("live, nobody", "since=2", until: "}")
            }
            #expect(differences.isEmpty)
            #expect(
                statuses == [
                    201, 200, 200, 200, 200, 200, 422, 200, 200, 200, 200, 200, 400, 400, 200, 200,
                    404, 400, 404, 200, 200, 400, 401,
                ]
            )
        }

        @Test func `a profile is changed and refused alike`() async throws {
            let (statuses, differences) = try await played { script in
                _ = try await script.signIn()
                try await script.call("account", "GET", "/v1/account")
                let settings: JSONValue = ["settings": ["seen": true], "timeZone": "Asia/Tokyo"]
                try await script.call("patch", "PATCH", "/v1/account", settings)
                let zone: JSONValue = ["timeZone": "Nowhere/Here"]
                try await script.call("no zone", "PATCH", "/v1/account", zone)
                try await script.call("no object", "PATCH", "/v1/account", [1])
                try await script.call("quotas", "GET", "/v1/quotas")
            }
            #expect(differences.isEmpty)
            #expect(statuses == [201, 200, 200, 422, 400, 200])
        }
    }
}

private struct EmptyObject: Codable, Sendable {}

private func secret(_ last: Character) -> String { String(repeating: "A", count: 42) + "\(last)" }

extension WireScript {
    fileprivate mutating func signIn() async throws -> Session {
        let guest = GuestRequest(deviceId: "a-device-of-both", deviceSecret: secret("A"))
        let answer = try await call("sign in", "POST", "/v1/accounts/guest", guest)
        let session = try JSONDecoder().decode(SignedIn.self, from: answer.body).session
        token = session.accessToken
        return session
    }

    fileprivate mutating func spend(_ amount: Int64, key: String?) async throws {
        let body = SpendRequest(amount: amount, reason: "a test")
        try await call("spend \(amount) \(key ?? "")", "POST", "/v1/spend", body, key: key)
    }

    fileprivate mutating func push(_ name: String, _ operation: PushedOperation) async throws {
        let body = PushRequest(device: "a-device-of-both", operations: [operation])
        try await call(name, "POST", "/v1/sync/push", body)
    }
}

extension PushedOperation {
    fileprivate static func note(
        _ id: String,
        text: String,
        collection: String = "notes",
        mutator: String = CreateRecord.name,
        lane: String = "main",
        operation: UInt64 = 0
    ) -> PushedOperation {
        var random = SplitMix64(seed: operation << 8 | UInt64(id.utf8.first ?? 0))
        return PushedOperation(
            id: Identifier(at: Timestamp(millisecondsSince1970: 1), using: &random),
            sequence: 1,
            lane: lane,
            mutator: mutator,
            arguments: [
                "collection": .string(collection), "id": .string(id),
                "fields": ["text": .string(text)],
            ]
        )
    }
}
