import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Sessions and move codes", .bounded)
struct SessionRouteTests {
    private func redeem(
        _ code: String,
        device: String = "device-\(UUID().uuidString)",
        on server: LiveServer
    ) async throws -> Reply {
        let body =
            #"{"code":"\#(code)","deviceId":"\#(device)","deviceSecret":"\#(Guest.secret(9))"}"#
        return try await server.send("POST", "/v1/sessions/codes/redeem", body)
    }

    private func code(of guest: Guest) async throws -> String {
        let reply = try await guest.send("POST", "/v1/sessions/codes", "{}")
        #expect(reply.status == 201)
        return try reply.decode(MoveCode.self).code
    }

    @Test func `the list names the devices and the current session`() async throws {
        try await LiveServer.with { server in
            let first = try await server.guest(extra: #","deviceName":"Ana's phone""#)
            let second = try await server.guest(device: first.device)
            let list = try await first.get("/v1/sessions").decode(Items<SessionInfo>.self).items
            #expect(list.count == 2)
            let current = list.filter(\.isCurrent)
            #expect(current.map(\.deviceName) == ["Ana's phone"])
            #expect(second.account.id == first.account.id)
        }
    }

    @Test func `a long device name is refused`() async throws {
        try await LiveServer.with { server in
            let name = String(repeating: "x", count: 65)
            let body = """
                {"deviceId":"device-of-a-long-name","deviceSecret":"\(Guest.secret(7))",\
                "deviceName":"\(name)"}
                """
            let reply = try await server.send("POST", "/v1/accounts/guest", body)
            #expect(reply.code == "invalid_content")
        }
    }

    // ory/kratos#2921: revoking the second session revoked the first one.
    @Test func `ending another session ends that one only, at once`() async throws {
        try await LiveServer.with { server in
            let first = try await server.guest()
            let second = try await server.guest(device: first.device)
            let list = try await first.get("/v1/sessions").decode(Items<SessionInfo>.self).items
            let other = try #require(list.first { !$0.isCurrent })
            #expect(try await first.send("DELETE", "/v1/sessions/\(other.id)").status == 204)
            #expect(try await second.get("/v1/balance").code == "session_ended")
            #expect(try await first.get("/v1/balance").status == 200)
            let again = try await first.send("DELETE", "/v1/sessions/\(other.id)")
            #expect(again.code == "not_found")
        }
    }

    @Test func `a session of another account is not found`() async throws {
        try await LiveServer.with { server in
            let (own, other) = (try await server.guest(), try await server.guest())
            let list = try await other.get("/v1/sessions").decode(Items<SessionInfo>.self).items
            let id = try #require(list.first?.id)
            #expect(try await own.send("DELETE", "/v1/sessions/\(id)").code == "not_found")
            #expect(try await other.get("/v1/balance").status == 200)
        }
    }

    @Test func `signing out everywhere may keep the current session`() async throws {
        try await LiveServer.with { server in
            let first = try await server.guest()
            var others: [Guest] = []
            for _ in 0..<20 { others.append(try await server.guest(device: first.device)) }
            let path = "/v1/sessions?keepCurrent=true"
            #expect(try await first.send("DELETE", path).status == 204)
            for other in others {
                #expect(try await other.get("/v1/balance").code == "session_ended")
            }
            #expect(try await first.get("/v1/balance").status == 200)
            #expect(try await first.send("DELETE", "/v1/sessions").status == 204)
            #expect(try await first.get("/v1/balance").code == "session_ended")
        }
    }

    @Test func `a code moves the guest once, and both devices share the account`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let code = try await code(of: guest)
            #expect(code.count == 10)
            let device = "device-\(UUID().uuidString)"
            let typed = code.prefix(5).lowercased() + "-" + code.suffix(5)
            let moved = try await redeem(typed, device: device, on: server)
            #expect(try moved.decode(SignedIn.self).account.id == guest.account.id)
            // The response may have been lost.
            let again = try await redeem(code, device: device, on: server)
            #expect(try again.decode(SignedIn.self).account.id == guest.account.id)
            #expect(try await redeem(code, on: server).code == "move_code_invalid")
            let known = try await server.guest(device: device, secret: Guest.secret(9))
            #expect(known.account.id == guest.account.id)
        }
    }

    @Test func `an old, replaced or wrong code is refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let first = try await code(of: guest)
            let second = try await code(of: guest)
            #expect(try await redeem(first, on: server).code == "move_code_invalid")
            #expect(try await redeem("2222222222", on: server).code == "move_code_invalid")
            server.setup.wall.advance(by: .seconds(601))
            #expect(try await redeem(second, on: server).code == "move_code_invalid")
        }
    }

    @Test func `a device with data of its own is refused, and an empty one moves`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let busy = try await server.guest(secret: Guest.secret(9))
            _ = try await busy.spend(1)
            let code = try await code(of: guest)
            let refused = try await redeem(code, device: busy.device, on: server)
            #expect(refused.code == "identity_taken")
            #expect(refused.body.contains("merges"))
            #expect(try await busy.balance().available == 99)

            let empty = try await server.guest(secret: Guest.secret(9))
            let moved = try await redeem(code, device: empty.device, on: server)
            #expect(try moved.decode(SignedIn.self).account.id == guest.account.id)
            #expect(try await empty.get("/v1/balance").code == "session_ended")
        }
    }

    @Test func `attempts of an address are limited`() async throws {
        try await LiveServer.with { server in
            for _ in 0..<10 {
                #expect(try await redeem("22222222", on: server).status == 422)
            }
            let reply = try await redeem("22222222", on: server)
            #expect(reply.code == "rate_limited")
            #expect(reply["Retry-After"] != nil)
        }
    }
}
