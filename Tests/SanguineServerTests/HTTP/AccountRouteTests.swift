import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Accounts and sessions over HTTP", .bounded)
struct AccountRouteTests {
    @Test func `a new device gets 201 with an account, a session and a head`() async throws {
        try await LiveServer.with { server in
            let secret = Guest.secret(1)
            let body = #"""
                {"deviceId":"a-device-of-16-and-more","deviceSecret":"\#(secret)",
                "timeZone":"Europe/Istanbul","language":"tr"}
                """#
            let created = try await server.send("POST", "/v1/accounts/guest", body)
            #expect(created.status == 201)
            #expect(created["Cache-Control"] == "no-store")
            #expect(created.head == 2)  // The account, then its first tokens.
            let first = try created.decode(SignedIn.self)
            #expect(first.account.kind == .guest)
            #expect(first.account.plan == .free)
            #expect(first.account.timeZone == "Europe/Istanbul")
            #expect(first.account.language == "tr")
            #expect(first.account.settings == [:])
            #expect(first.account.createdAt == server.setup.wall.now())
            #expect(first.session.expiresIn == 900)

            let known = try await server.send("POST", "/v1/accounts/guest", body)
            #expect(known.status == 200)
            #expect(known.head == nil)  // Nothing that the account can see has changed.
            let second = try known.decode(SignedIn.self)
            #expect(second.account == first.account)
            #expect(second.session.refreshToken != first.session.refreshToken)
        }
    }

    @Test func `a known device with another secret is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let body = #"{"deviceId":"\#(guest.device)","deviceSecret":"\#(Guest.secret(8))"}"#
            let reply = try await server.send("POST", "/v1/accounts/guest", body)
            #expect(reply.status == 401)
            #expect(reply.code == "device_secret_mismatch")
            #expect(reply["WWW-Authenticate"] == "Bearer")
        }
    }

    @Test(arguments: [
        #"{"deviceId":"123456789012345","deviceSecret":"$"}"#,
        #"{"deviceId":"\#(String(repeating: "d", count: 129))","deviceSecret":"$"}"#,
        #"{"deviceId":"1234567890123456","deviceSecret":"AAAA"}"#,
        #"{"deviceId":"1234567890123456","deviceSecret":"$="}"#,
        #"{"deviceId":"1234567890123456"}"#,
        #"{"deviceSecret":"$"}"#,
        #"{"deviceId":"1234567890123456","deviceSecret":"$","language":"not a tag"}"#,
    ])
    func `an invalid device id, secret or language is invalid content`(body: String) async throws {
        try await LiveServer.with { server in
            let body = body.replacing("$", with: Guest.secret(1))
            let reply = try await server.send("POST", "/v1/accounts/guest", body)
            #expect(reply.status == 422)
            #expect(reply.code == "invalid_content")
        }
    }

    @Test(arguments: [("Turkey", "Turkey"), ("Mars/Base", "UTC"), ("EST5", "UTC"), ("", "UTC")])
    func `a device with an unknown time zone still gets an account`(
        named name: String,
        kept: String
    ) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest(extra: #","timeZone":"\#(name)""#)
            #expect(guest.account.timeZone == kept)
        }
    }

    @Test func `concurrent first calls of a device return one account`()
        async throws
    {
        try await LiveServer.with { server in
            let device = "one-device-many-calls"
            let guests = try await withThrowingTaskGroup(of: Guest.self) { tasks in
                for _ in 0..<50 { tasks.addTask { try await server.guest(device: device) } }
                return try await tasks.reduce(into: []) { $0.append($1) }
            }
            #expect(Set(guests.map(\.account.id)).count == 1)
            #expect(try await guests[0].balance().available == 100)
        }
    }

    @Test func `a refresh token returns the same new session for a minute`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let first = try await refresh(guest.session.refreshToken, server)
            #expect(first.status == 200)
            let session = try first.decode(Refreshed.self).session
            #expect(session.refreshToken != guest.session.refreshToken)
            server.setup.wall.advance(by: .seconds(60))
            let again = try await refresh(guest.session.refreshToken, server)
            #expect(try again.decode(Refreshed.self).session.refreshToken == session.refreshToken)
            let balance = try await server.send(
                "GET",
                "/v1/balance",
                headers: ["Authorization": "Bearer \(session.accessToken)"]
            )
            #expect(balance.status == 200)
        }
    }

    @Test func `an old refresh token whose successor was used ends the session family`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let second = try await refresh(guest.session.refreshToken, server)
                .decode(Refreshed.self).session
            let third = try await refresh(second.refreshToken, server).decode(Refreshed.self)
                .session
            let reused = try await refresh(guest.session.refreshToken, server)
            #expect(reused.status == 401)
            #expect(reused.code == "refresh_reused")
            #expect(try await refresh(third.refreshToken, server).code == "session_ended")
            #expect(try await guest.get("/v1/balance").code == "session_ended")
        }
    }

    @Test func `a used refresh token counts as reuse after a minute`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            _ = try await refresh(guest.session.refreshToken, server)
            server.setup.wall.advance(by: .milliseconds(60_001))
            #expect(try await refresh(guest.session.refreshToken, server).code == "refresh_reused")
        }
    }

    @Test func `a forged or expired refresh token is invalid`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            var forged = guest.session.refreshToken
            forged.replaceSubrange(forged.startIndex...forged.startIndex, with: "_")
            for token in ["", "x", forged, guest.session.accessToken] {
                let reply = try await refresh(token, server)
                #expect(reply.status == 401)
                #expect(reply.code == "refresh_invalid")
            }
            server.setup.wall.advance(by: .seconds(60 * 86_400))
            #expect(try await refresh(guest.session.refreshToken, server).code == "refresh_invalid")
            #expect(
                try await server.send("POST", "/v1/sessions/refresh", "{}").code
                    == "invalid_content"
            )
        }
    }

    @Test func `signing out ends both tokens at once, and no other session`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let other = try await server.guest(device: guest.device)
            let reply = try await guest.send("DELETE", "/v1/sessions/current")
            #expect(reply.status == 204)
            #expect(reply.body.isEmpty)
            #expect(try await guest.get("/v1/account").code == "session_ended")
            #expect(try await refresh(guest.session.refreshToken, server).code == "session_ended")
            #expect(try await other.get("/v1/account").status == 200)
        }
    }

    @Test func `an account is read, and changed by a merge patch`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(try await guest.get("/v1/account").decode(Account.self) == guest.account)
            let patch = #"""
                {"timeZone":"Asia/Tokyo","language":"ja","displayName":"雪",
                "settings":{"onboarded":true,"push":{"daily":1,"weekly":2}}}
                """#
            let first = try await guest.send("PATCH", "/v1/account", patch)
            #expect(first.status == 200)
            #expect(first.head == 3)
            let second = try await guest.send(
                "PATCH",
                "/v1/account",
                #"{"displayName":null,"settings":{"push":{"daily":null}}}"#
            )
            #expect(second.head == 4)
            let account = try second.decode(Account.self)
            #expect(account.timeZone == "Asia/Tokyo")
            #expect(account.displayName == nil)
            #expect(account.settings == ["onboarded": true, "push": ["weekly": 2]])
            #expect(try await guest.get("/v1/account").decode(Account.self) == account)
            let idle = try await guest.send("PATCH", "/v1/account", "{}")
            #expect(idle.head == 4)  // Nothing changed, so the head stays.
        }
    }

    @Test(arguments: [
        #"{"timeZone":"Nowhere"}"#, #"{"timeZone":null}"#, #"{"language":7}"#,
        #"{"displayName":""}"#, #"{"displayName":"\#(String(repeating: "n", count: 101))"}"#,
        #"{"settings":[]}"#, #"{"settings":null}"#, #"{"language":"tr","plan":"premium"}"#,
        #"{"language":"tr","id":1}"#, #"{"language":"tr","email":"a@example.org"}"#,
        #"{"settings":{"a":"\#(String(repeating: "s", count: 4_096))"}}"#,
    ])
    func `an invalid patch changes nothing`(patch: String) async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let reply = try await guest.send("PATCH", "/v1/account", patch)
            #expect(reply.status == 422)
            #expect(reply.code == "invalid_content")
            #expect(try await guest.get("/v1/account").decode(Account.self) == guest.account)
        }
    }

    @Test func `a forged, expired or changed access token is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let token = guest.session.accessToken
            let parts = token.split(separator: ".").map(String.init)
            let none = Data(#"{"alg":"none","typ":"JWT"}"#.utf8).base64EncodedString()
                .replacing("=", with: "")
            for header in [
                "", "Bearer", "Bearer ", "Bearer x", "Basic \(token)", token,
                "Bearer \(parts[0]).\(parts[1])", "Bearer \(none).\(parts[1]).",
                "Bearer \(parts[0]).\(parts[1]).\(String(parts[2].reversed()))",
            ] {
                let reply = try await server.send(
                    "GET",
                    "/v1/balance",
                    headers: ["Authorization": header]
                )
                #expect(reply.status == 401)
                #expect(reply.code == "unauthenticated", "\(header)")
                #expect(reply["WWW-Authenticate"] == "Bearer")
            }
            let lower = try await server.send(
                "GET",
                "/v1/balance",
                headers: ["Authorization": "bearer \(token)"]
            )
            #expect(lower.status == 200)  // The scheme's case does not matter (RFC 9110).
            server.setup.wall.advance(by: .seconds(901))
            #expect(try await guest.get("/v1/balance").code == "token_expired")
        }
    }

    @Test func `X-User-Id must be the token's subject`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let other = try await server.guest()
            let own = ["X-User-Id": guest.account.id.description]
            #expect(try await guest.get("/v1/balance", headers: own).status == 200)
            for claimed in [other.account.id.description, "", "me"] {
                let headers = ["X-User-Id": claimed]
                for reply in [
                    try await guest.get("/v1/balance", headers: headers),
                    try await guest.post("/v1/spend", headers: headers),
                    try await guest.send("PATCH", "/v1/account", "{}", headers: headers),
                ] {
                    #expect(reply.status == 403)
                    #expect(reply.code == "identity_mismatch", "\(claimed)")
                }
            }
        }
    }

    private func refresh(_ token: String, _ server: LiveServer) async throws -> Reply {
        try await server.send("POST", "/v1/sessions/refresh", #"{"refreshToken":"\#(token)"}"#)
    }
}
