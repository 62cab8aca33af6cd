import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Trusted proxies", .bounded)
struct TrustedProxiesTests {
    private let proxies = TrustedProxies(["10.0.0.0/8", "192.0.2.7", "2001:db8:f::/48"])

    private func client(
        of peer: String,
        _ forwarded: [String] = [],
        forwardedFor: [String] = []
    ) -> String? {
        proxies.client(
            behind: IPAddress(peer),
            forwarded: forwarded,
            forwardedFor: forwardedFor
        )?.client
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"),
        ("::ffff:192.0.2.1", "192.0.2.1"), ("::1", "0:0:0:0::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("2001:DB8::9", "2001:db8:0:0::/64"),
        ("fe80::1%eth0", "fe80:0:0:0::/64"),
    ])
    func `an IPv4 address counts on its own, and an IPv6 address counts with its /64`(
        text: String,
        client: String
    ) {
        #expect(IPAddress(text)?.client == client)
    }

    @Test(arguments: [
        "", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "1.2.3.4%eth0", "::g", "1::2::3",
        "unknown", "[::1]", "1.2.3.4:80", " 1.2.3.4", "1.2.3.4\0",
    ])
    func `invalid addresses are not parsed`(text: String) { #expect(IPAddress(text) == nil) }

    @Test func `loopback addresses are recognized`() {
        for text in ["127.0.0.1", "127.255.0.3", "::1", "::ffff:127.0.0.1"] {
            #expect(IPAddress(text)?.isLoopback == true)
        }
        for text in ["128.0.0.1", "::2", "1::1", "0.0.0.0"] {
            #expect(IPAddress(text)?.isLoopback == false)
        }
    }

    @Test(arguments: [
        ("10.0.0.0/8", "10.255.1.1", "11.0.0.0"), ("0.0.0.0/0", "1.2.3.4", "::1"),
        ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
        ("192.0.2.1/32", "192.0.2.1", "192.0.2.0"),
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"), ("::/0", "2001::", "1.2.3.4"),
        ("2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"),
        ("2001:db8::/96", "2001:db8::ffff:ffff", "2001:db8::1:0:0"),
        ("::1/128", "::1", "::"),
    ])
    func `a range contains the addresses that share its prefix`(
        range: String,
        inside: String,
        outside: String
    ) throws {
        let range = try #require(AddressRange(range))
        #expect(range.contains(try #require(IPAddress(inside))))
        #expect(!range.contains(try #require(IPAddress(outside))))
    }

    @Test(arguments: [
        "", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10/8", "::/129", "a/8",
        "10.0.0.0/8/8", "::ffff:10.0.0.0/104", "fe80::1%eth0", "/8",
    ])
    func `invalid ranges are refused`(text: String) { #expect(AddressRange(text) == nil) }

    @Test func `forwarding fields of an untrusted peer are ignored`() {
        #expect(client(of: "192.0.2.1", forwardedFor: ["1.2.3.4"]) == "192.0.2.1")
        #expect(client(of: "192.0.2.1", ["for=1.2.3.4"]) == "192.0.2.1")
        let nobody = TrustedProxies([])
        let peer = IPAddress("127.0.0.1")
        #expect(nobody.client(behind: peer, forwarded: [], forwardedFor: ["1.2.3.4"]) == peer)
        #expect(proxies.client(behind: nil, forwarded: [], forwardedFor: ["1.2.3.4"]) == nil)
    }

    @Test(arguments: [
        (["1.2.3.4"], "1.2.3.4"), (["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
        (["9.9.9.9", "1.2.3.4"], "1.2.3.4"), (["1.2.3.4,10.1.1.1 ,\t192.0.2.7"], "1.2.3.4"),
        (["1.2.3.4:4711"], "1.2.3.4"), (["[2001:db8::1]:80"], "2001:db8:0:0::/64"),
        (["2001:db8::1"], "2001:db8:0:0::/64"), (["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        (["evil\", 1.2.3.4"], "1.2.3.4"), (["1.2.3.4,"], "1.2.3.4"), ([""], "10.0.0.1"),
        ([], "10.0.0.1"), (["nonsense"], "10.0.0.1"), (["1.2.3.4, unknown"], "10.0.0.1"),
        (["1.2.3.4, nonsense, 10.1.1.1"], "10.0.0.1"), (["[1.2.3.4]"], "10.0.0.1"),
    ])
    func `X-Forwarded-For is read from its end, past trusted proxies`(
        lines: [String],
        client: String
    ) {
        #expect(self.client(of: "10.0.0.1", forwardedFor: lines) == client)
    }

    @Test(arguments: [
        (["for=1.2.3.4"], "1.2.3.4"), (["For=\"1.2.3.4:80\";proto=https"], "1.2.3.4"),
        (["proto=http;by=10.0.0.1;FOR=1.2.3.4"], "1.2.3.4"),
        (["for=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe:0::/64"),
        (["for=9.9.9.9, for=1.2.3.4;by=10.1.1.1, for=10.1.1.1"], "1.2.3.4"),
        (["for=9.9.9.9", "for=1.2.3.4"], "1.2.3.4"),
        (["for=\"evil, for=1.2.3.4"], "1.2.3.4"), (["by=\"a,b;c\";for=1.2.3.4"], "1.2.3.4"),
        (["for=unknown"], "10.0.0.1"), (["for=_hidden"], "10.0.0.1"), (["proto=http"], "10.0.0.1"),
        (["for=1.2.3.4;for=5.6.7.8"], "10.0.0.1"), (["for"], "10.0.0.1"), (["for=\""], "10.0.0.1"),
        (["for=1.2.3.4, for=unknown"], "10.0.0.1"),
    ])
    func `Forwarded is read from its end, past trusted proxies`(lines: [String], client: String) {
        #expect(self.client(of: "10.0.0.1", lines) == client)
    }

    @Test func `two fields that name different clients are both ignored`() {
        #expect(client(of: "10.0.0.1", ["for=1.2.3.4"], forwardedFor: ["1.2.3.4"]) == "1.2.3.4")
        #expect(client(of: "10.0.0.1", ["for=9.9.9.9"], forwardedFor: ["1.2.3.4"]) == "10.0.0.1")
    }

    /// A client can write anything to the left of the entries that trusted proxies add.
    @Test(arguments: 1...200)
    func `a client cannot forge its address`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let alphabet = Array("0123456789abcdef.:,;=\"\\[]% \tforFOR_unknown\u{e4}")
        let pieces = ["1.2.3.4", "10.0.0.9", "for=10.0.0.9", "[::1]", "\"", ", ", ";", "for=\""]
        for _ in 0..<50 {
            var junk = ""
            for _ in 0..<Int.random(in: 0...12, using: &random) {
                junk +=
                    Bool.random(using: &random)
                    ? pieces.randomElement(using: &random) ?? ""
                    : String(alphabet.randomElement(using: &random) ?? "x")
            }
            let usual = "\(junk), 203.0.113.9, 10.3.3.3"
            #expect(client(of: "10.0.0.1", forwardedFor: [usual]) == "203.0.113.9", "\(usual)")
            let standard = "\(junk), for=203.0.113.9;proto=https, for=\"10.3.3.3:1\";by=_a"
            #expect(client(of: "10.0.0.1", [standard]) == "203.0.113.9", "\(standard)")
            _ = client(of: "10.0.0.1", [junk], forwardedFor: [junk])
        }
    }

    @Test func `rate limits apply to the client that a trusted proxy names`() async throws {
        try await LiveServer.with {
            $0.settings.http.trustedProxies = ["127.0.0.1"]
            $0.settings.limits.addressRequestsPerMinute = 2
        } _: { server in
            func call(for client: String) async throws -> Int {
                try await server.send(
                    "GET",
                    "/v1/balance",
                    headers: ["X-Forwarded-For": client, "Authorization": "Bearer x"]
                ).status
            }
            // The third address is in the /64 of the first two; the others are not.
            var statuses: [Int] = []
            for client in ["db8::1", "db8::1", "db8::2", "db8:0:1::1", "db8:1::1"] {
                statuses.append(try await call(for: "2001:\(client)"))
            }
            #expect(statuses == [401, 401, 429, 401, 401])
        }
    }

    @Test func `a trusted proxy may use all connections`() async throws {
        try await LiveServer.with {
            $0.settings.limits.connections = 4
            $0.settings.http.trustedProxies = ["127.0.0.0/8"]
        } _: { server in
            var connections: [UnreadConnection] = []
            for _ in 0..<3 {
                connections.append(try await UnreadConnection.answered(server.ports.http))
            }
            #expect(try await server.send("GET", "/health/live").status == 200)
            #expect(connections.allSatisfy { !$0.isClosed })
        }
    }
}
