import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The rules that a request can break, in the order in which the server checks them.
private enum Rule: Int, CaseIterable {
    case malformed, unauthenticated, otherIdentity, tooFast, notFound, otherRequest, invalid
    case cannotPay, unavailable

    var code: String {
        switch self {
        case .malformed: "idempotency_key_missing"
        case .unauthenticated: "unauthenticated"
        case .otherIdentity: "identity_mismatch"
        case .tooFast: "rate_limited"
        case .notFound: "not_found"
        case .otherRequest: "idempotency_mismatch"
        case .invalid: "invalid_content"
        case .cannotPay: "insufficient_tokens"
        case .unavailable: "upstream_missing"
        }
    }
}

@Suite("Order of refusals", .bounded)
struct RefusalOrderTests {
    private static let requestsPerMinute = 400

    private static func settings() -> ServerSettings {
        var settings = ServerSettings()
        settings.http.port = 0
        settings.http.adminPort = 0
        settings.limits.requestsPerMinute = requestsPerMinute
        settings.functions = [
            .echo,
            FunctionSetting(name: "dearEcho", kind: .echo, price: .fixed(1_000)),
            FunctionSetting(name: "lost", kind: .upstream, price: .fixed(1)),
            FunctionSetting(name: "dearLost", kind: .upstream, price: .fixed(1_000)),
        ]
        return settings
    }

    /// Sends a request that breaks exactly these rules, except `tooFast`, which depends on the
    /// guest.
    private func send(_ broken: Set<Rule>, by guest: Guest) async throws -> Reply {
        var headers: [String: String] = [:]
        if !broken.contains(.malformed) {
            let key = broken.contains(.otherRequest) ? "used" : "new-\(broken.hashValue)"
            headers["Idempotency-Key"] = key
        }
        if !broken.contains(.unauthenticated) {
            headers["Authorization"] = "Bearer \(guest.session.accessToken)"
        }
        if broken.contains(.otherIdentity) {
            headers["X-User-Id"] = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"
        }
        let name =
            switch (broken.contains(.cannotPay), broken.contains(.unavailable)) {
            case (false, false): "echo"
            case (true, false): "dearEcho"
            case (false, true): "lost"
            case (true, true): "dearLost"
            }
        let input =
            broken.contains(.invalid)
            ? #"{"text":7,"question":7}"# : #"{"text":"a","question":"a"}"#
        return try await guest.server.send(
            "POST",
            "/v1/functions/\(broken.contains(.notFound) ? "nobody" : name)",
            #"{"input":\#(input)}"#,
            headers: headers
        )
    }

    /// Every set of rules, and so every combination that a request can break at once.
    private static func sets(tooFast: Bool) -> [Set<Rule>] {
        (0..<(1 << Rule.allCases.count))
            .map { bits in Set(Rule.allCases.filter { bits >> $0.rawValue & 1 == 1 }) }
            .filter { $0.contains(.tooFast) == tooFast }
    }

    private func walk(_ sets: [Set<Rule>], by guest: Guest) async throws {
        for broken in sets {
            let reply = try await send(broken, by: guest)
            let first = broken.min { $0.rawValue < $1.rawValue }
            #expect(reply.code == first?.code, "\(broken) was answered with \(reply.body)")
            if first == nil { #expect(reply.status == 200) }
        }
    }

    @Test func `the refusal names the first of the rules that a request breaks`() async throws {
        try await LiveServer.with {
            $0.settings = Self.settings()
        } _: { server in
            let guest = try await server.guest()
            #expect(try await guest.echo("the first use", key: "used").status == 200)
            try await walk(Self.sets(tooFast: false), by: guest)
        }
    }

    @Test
    func `beyond the rate, only malformed, unauthenticated and foreign requests are refused first`()
        async throws
    {
        try await LiveServer.with {
            $0.settings = Self.settings()
        } _: { server in
            let guest = try await server.guest()
            for _ in 0..<Self.requestsPerMinute {
                #expect(try await guest.get("/v1/balance").status == 200)
            }
            try await walk(Self.sets(tooFast: true), by: guest)
        }
    }

    @Test func `a full server checks the content and the price before it refuses`() async throws {
        try await LiveServer.with {
            $0.settings.limits.functionCalls = 1
            $0.settings.limits.queuedCalls = 0
        } _: { server in
            let guest = try await server.guest()
            let poor = try await server.guest()
            try await poor.spend(downTo: 0)
            async let running = guest.echo("slow", key: "slow", delayMs: 1_000)
            try await server.setup.delay.waitForSleepers(2)  // Housekeeping is the other sleeper.

            let overloaded = try await guest.echo("a", key: "again")
            #expect(overloaded.status == 503)
            #expect(overloaded.code == "overloaded")
            #expect(overloaded["Retry-After"] == "1")
            #expect(try await poor.echo("a").code == "insufficient_tokens")
            #expect(
                try await guest.post("/v1/functions/echo", #"{"input":{}}"#).code
                    == "invalid_content"
            )
            #expect(try await guest.echo("slow", key: "slow").code == "idempotency_mismatch")

            server.setup.delay.advance(by: .seconds(1))
            let answer = try await running
            #expect(answer.status == 200)
            #expect(try await guest.echo("a", key: "again").status == 200)
        }
    }

    @Test func `an unknown hold is not found before a used key is detected`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            #expect(try await guest.spend(1, key: "used").status == 200)
            let path = "/v1/holds/0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa/capture"
            #expect(try await guest.post(path, #"{"amount":-1}"#, key: "used").code == "not_found")
            #expect(
                try await guest.post("/v1/holds/no-id/release", key: "used").code == "not_found"
            )
            let quota = "/v1/quotas/naps/consume"
            #expect(try await guest.post(quota, #"{"amount":-1}"#, key: "used").code == "not_found")
        }
    }

    @Test func `an invalid query is refused before the token is checked`() async throws {
        try await LiveServer.with { server in
            for path in [
                "/v1/ledger?limit=0", "/v1/ledger?limit=-1", "/v1/ledger?limit=ten",
                "/v1/ledger?limit=",
                "/v1/balance?operations=" + String(repeating: "a,", count: 101),
            ] {
                let reply = try await server.send("GET", path)
                #expect(reply.code == "malformed_request", "\(path)")
            }
        }
    }
}
