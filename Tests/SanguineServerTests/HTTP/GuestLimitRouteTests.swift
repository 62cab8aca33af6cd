import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

/// The limit on new guests, by the address that a trusted proxy reports.
@Suite("Guests per address over HTTP", .bounded)
struct GuestLimitRouteTests {
    private func with(
        trusting proxies: [String],
        _ body: (LiveServer) async throws -> Void
    ) async throws {
        try await LiveServer.with {
            $0.settings.limits.guestsPerHour = 1
            $0.settings.http.trustedProxies = proxies
        } _: { server in
            try await body(server)
        }
    }

    private func open(
        _ server: LiveServer,
        for address: String,
        device: String = "device-\(UUID().uuidString)"
    ) async throws -> Reply {
        try await server.send(
            "POST",
            "/v1/accounts/guest",
            #"{"deviceId":"\#(device)","deviceSecret":"\#(Guest.secret(7))"}"#,
            headers: ["X-Forwarded-For": address]
        )
    }

    @Test func `one guest too many is 429 with Retry-After, a known device is not`() async throws {
        try await with(trusting: []) { server async throws in
            let device = "device-\(UUID().uuidString)"
            #expect(try await open(server, for: "192.0.2.1", device: device).status == 201)
            let refused = try await open(server, for: "192.0.2.1")
            #expect(refused.status == 429 && refused.code == "rate_limited")
            #expect(refused["Retry-After"].flatMap { Int($0) } == 3_600)
            #expect(try await open(server, for: "192.0.2.1", device: device).status == 200)
        }
    }

    @Test func `a proxy that is not trusted cannot report another address`() async throws {
        try await with(trusting: []) { server async throws in
            #expect(try await open(server, for: "192.0.2.1").status == 201)
            #expect(try await open(server, for: "192.0.2.2").status == 429)
        }
    }

    @Test(arguments: [
        ("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"),
    ])
    func `addresses of one client count together`(first: String, second: String) async throws {
        try await with(trusting: ["127.0.0.1"]) { server async throws in
            #expect(try await open(server, for: first).status == 201)
            #expect(try await open(server, for: second).status == 429)
        }
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1"),
    ])
    func `addresses of different clients count apart`(first: String, second: String) async throws {
        try await with(trusting: ["127.0.0.1"]) { server async throws in
            #expect(try await open(server, for: first).status == 201)
            #expect(try await open(server, for: second).status == 201)
        }
    }
}

/// All limits of addresses count an IPv6 address by its /64.
@Suite("Limits of IPv6 addresses", .bounded)
struct PrefixLimitTests {
    /// Sends requests from different addresses of one /64 until one is refused.
    private func refusal(
        _ path: String,
        _ body: (Int) -> String,
        limit: Int
    ) async throws -> Reply? {
        try await refusals(path, body, limit: limit) { "2001:db8:1:2::\($0)" }
    }

    private func refusals(
        _ path: String,
        _ body: (Int) -> String,
        limit: Int,
        _ address: (Int) -> String
    ) async throws -> Reply? {
        var refused: Reply?
        try await LiveServer.with {
            $0.settings.http.trustedProxies = ["127.0.0.1"]
            $0.settings.limits.addressProcessorTime = .seconds(600)
        } _: { server in
            for number in 1...(limit + 1) where refused == nil {
                let reply = try await server.send(
                    "POST",
                    path,
                    body(number),
                    headers: ["X-Forwarded-For": address(number)]
                )
                if reply.status == 429 {
                    #expect(number == limit + 1)
                    refused = reply
                }
            }
        }
        return refused
    }

    @Test func `sign-ins with passwords count by the prefix`() async throws {
        let reply = try await refusal(
            "/v1/sessions",
            { #"{"email":"a\#($0)@example.org","password":"a wrong password"}"# },
            limit: 10
        )
        #expect(reply?.code == "rate_limited")
    }

    @Test func `codes of e-mails count by the prefix`() async throws {
        let reply = try await refusal(
            "/v1/accounts/password/reset",
            { #"{"email":"a\#($0)@example.org"}"# },
            limit: 30
        )
        #expect(reply?.code == "rate_limited")
    }

    @Test func `codes of other devices count by the prefix`() async throws {
        let reply = try await refusal(
            "/v1/sessions/codes/redeem",
            { number in
                """
                {"code":"ABCD2345","deviceId":"device-number-\(100_000 + number)",\
                "deviceSecret":"\(Guest.secret(7))"}
                """
            },
            limit: 10
        )
        #expect(reply?.code == "rate_limited")
    }

    @Test func `codes from different prefixes do not count together`() async throws {
        let reply = try await refusals(
            "/v1/sessions/codes/redeem",
            { number in
                """
                {"code":"ABCD2345","deviceId":"device-number-\(100_000 + number)",\
                "deviceSecret":"\(Guest.secret(7))"}
                """
            },
            limit: 10
        ) { "2001:db8:1:\($0)::1" }
        #expect(reply == nil)
    }
}
