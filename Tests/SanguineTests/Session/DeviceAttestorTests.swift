import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// An attestor whose keys are numbers and whose objects name their client data.
private final class ScriptedAttestor: DeviceAttestor {
    struct State: Sendable {
        var keys = 0
        var attested: [String] = []
        var isSupported = true
        var failures: [DeviceAttestorError] = []
        var lost: Set<String> = []
    }

    let state = Mutex(State())

    var isSupported: Bool { state.withLock(\.isSupported) }

    func makeKey() async throws(DeviceAttestorError) -> String {
        state.withLock { state in
            state.keys += 1
            return "key-\(state.keys)"
        }
    }

    func attest(_ key: String, clientData: Data) async throws(DeviceAttestorError) -> Data {
        try state.withLock { state throws(DeviceAttestorError) in
            if !state.failures.isEmpty { throw state.failures.removeFirst() }
            guard !state.attested.contains(key) else { throw .keyInvalid }
            state.attested.append(key)
            return Data("attested ".utf8) + clientData
        }
    }

    func assertion(by key: String, clientData: Data) async throws(DeviceAttestorError) -> Data {
        try state.withLock { state throws(DeviceAttestorError) in
            guard !state.lost.contains(key) else { throw .keyInvalid }
            return Data("asserted ".utf8) + clientData
        }
    }

    func deviceToken() async -> Data? { Data("token".utf8) }
}

@Suite("Attestation by the client", .bounded)
struct DeviceAttestorTests {
    typealias Fixture = ClientFixture
    private static let challengePath = "/v1/attestation/challenge"

    private let fixture = Fixture()
    private let attestor = ScriptedAttestor()
    private var authority: StagedAuthority { fixture.authority }
    private let refusal = Problem(.attestationFailed, "A test's refusal.")

    private func client(folder: URL? = nil) throws -> SanguineClient {
        try fixture.client(folder: folder) { $0.deviceAttestor = attestor }
    }

    private func issue(_ challenges: String...) throws {
        let bodies = try challenges.map {
            try WireCoding.encode(AttestationChallenge(challenge: $0, expiresIn: 300))
        }
        let headers = ["Content-Type": "application/json"]
        authority.script(
            Self.challengePath,
            bodies.map { TransportResponse(status: 200, headers: headers, body: $0) }
        )
    }

    private var guests: [GuestRequest] {
        get throws {
            try authority.requests(Fixture.guestPath).map {
                try WireCoding.decode(GuestRequest.self, from: $0.body ?? Data())
            }
        }
    }

    private func text(_ object: String?) -> String? {
        object.flatMap { Data(base64Encoded: $0) }.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test func `a guest is created with an attestation of the challenge`() async throws {
        try issue("c-1")
        let client = try client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        let guest = try #require(try guests.first)
        #expect(guest.attestation?.keyId == "key-1" && guest.attestation?.challenge == "c-1")
        #expect(text(guest.attestation?.attestationObject) == "attested c-1")
        #expect(text(guest.deviceCheckToken) == "token")
    }

    @Test func `a server without attestation gets none`() async throws {
        let client = try client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        let guest = try #require(try guests.first)
        #expect(guest.attestation == nil && guest.assertion == nil)
        #expect(attestor.state.withLock(\.keys) == 0)
    }

    @Test func `a client without an attestor asks for no challenge`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        #expect(authority.count(Self.challengePath) == 0)
    }

    @Test func `a device that cannot attest asks for no challenge`() async throws {
        attestor.state.withLock { $0.isSupported = false }
        let client = try client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        #expect(authority.count(Self.challengePath) == 0)
    }

    @Test func `an attestation whose answer was lost is sent again`() async throws {
        try issue("c-1")
        authority.refuse(Fixture.guestPath, Problem(.overloaded, "Later."))
        let client = try client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        let sent = try guests.map(\.attestation)
        #expect(sent.count == 2 && sent[0] != nil && sent[0] == sent[1])
        #expect(authority.count(Self.challengePath) == 1)
    }

    @Test func `a known device signs in with an assertion by its stored key`() async throws {
        try await Fixture.withFolder { folder in
            try issue("c-1", "c-2")
            let first = try client(folder: folder)
            let old = try await first.session.accessToken()
            first.close()
            let second = try client(folder: folder)
            defer { second.close() }
            authority.expireTokens()
            authority.refuse(Fixture.refreshPath, Problem(.refreshInvalid, "Sign in."))
            _ = try await second.session.rejected(old)
            let guest = try #require(try guests.last)
            #expect(guest.attestation == nil && guest.assertion?.keyId == "key-1")
            #expect(text(guest.assertion?.assertion) == "asserted c-2.\(guest.deviceId)")
        }
    }

    @Test func `an assertion that the server refuses is replaced by an attestation`()
        async throws
    {
        try issue("c-1", "c-2", "c-3")
        let client = try client()
        defer { client.close() }
        let old = try await client.session.accessToken()
        authority.expireTokens()
        authority.refuse(Fixture.refreshPath, Problem(.refreshInvalid, "Sign in."))
        authority.refuse(Fixture.guestPath, refusal)
        _ = try await client.session.rejected(old)
        let sent = try guests
        try #require(sent.count == 3 && sent[1].assertion?.keyId == "key-1")
        #expect(sent[2].assertion == nil && sent[2].attestation?.keyId == "key-2")
    }

    @Test func `a lost key is replaced by a new one`() async throws {
        try issue("c-1", "c-2")
        let client = try client()
        defer { client.close() }
        let old = try await client.session.accessToken()
        attestor.state.withLock { _ = $0.lost.insert("key-1") }
        authority.expireTokens()
        authority.refuse(Fixture.refreshPath, Problem(.refreshInvalid, "Sign in."))
        _ = try await client.session.rejected(old)
        #expect(try guests.last?.attestation?.keyId == "key-2")
    }

    @Test func `a key that could not be attested is attested later`() async throws {
        attestor.state.withLock { $0.failures = [.unavailable] }
        try issue("c-1", "c-2")
        authority.refuse(Fixture.guestPath, refusal)
        let client = try client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        let sent = try guests
        try #require(sent.count == 2 && sent[0].attestation == nil)
        #expect(sent[1].attestation?.keyId == "key-1")
        #expect(attestor.state.withLock(\.keys) == 1)
    }

    @Test func `a refused attestation is an error, and the next one has a new key`() async throws {
        try issue("c-1", "c-2")
        authority.refuse(Fixture.guestPath, refusal)
        let client = try client()
        defer { client.close() }
        let error = await #expect(throws: SanguineError.self) {
            try await client.session.accessToken()
        }
        #expect(error?.errorClass == .refused)
        _ = try await client.session.accessToken()
        #expect(try guests.map { $0.attestation?.keyId } == ["key-1", "key-2"])
    }

    @Test func `a refresh has an assertion if the server demands one`() async throws {
        try issue("c-1", "c-2", "c-3")
        let client = try client()
        defer { client.close() }
        let first = try await client.session.accessToken()
        authority.expireTokens()
        authority.refuse(Fixture.refreshPath, refusal)
        let second = try await client.session.rejected(first)
        authority.expireTokens()
        _ = try await client.session.rejected(second)
        let sent = try authority.requests(Fixture.refreshPath).map {
            try WireCoding.decode(RefreshRequest.self, from: $0.body ?? Data())
        }
        #expect(sent.map { $0.assertion != nil } == [false, true, true])
        #expect(text(sent[1].assertion?.assertion) == "asserted c-2.\(sent[1].refreshToken)")
        #expect(authority.count(Fixture.guestPath) == 1)
    }

    /// A sign-out did not reach the server, for which the device still has a user.
    @Test func `the request after a former user's session has ended has the same attestation`()
        async throws
    {
        try issue("c-1", "c-2")
        let client = try client()
        defer { client.close() }
        _ = try await client.session.accessToken()
        await client.signOut()
        let former = SignedIn(
            account: Account(
                id: Identifier(at: fixture.clock.now()),
                kind: .registered,
                timeZone: "Europe/Vienna",
                language: "en",
                createdAt: fixture.clock.now()
            ),
            session: Session(accessToken: "former", expiresIn: 3_600, refreshToken: "none")
        )
        let headers = ["Content-Type": "application/json"]
        let found = TransportResponse(
            status: 200,
            headers: headers,
            body: try WireCoding.encode(former)
        )
        authority.script(Fixture.guestPath, [found])
        let path = "/v1/sessions/current"
        authority.script(path, [TransportResponse(status: 204, headers: [:], body: Data())])
        _ = try await client.value(of: .balance)
        let ended = try #require(authority.requests(path).last)
        #expect(ended.headers["Authorization"] == "Bearer former")
        let sent = try guests.map { $0.attestation?.challenge }
        #expect(sent == ["c-1", "c-2", "c-2"])
        #expect(client.accountId != nil && client.accountId != former.account.id)
    }

    @Test func `a session whose assertions are refused is renewed with the device`() async throws {
        try issue("c-1", "c-2", "c-3")
        let client = try client()
        defer { client.close() }
        let first = try await client.session.accessToken()
        let account = client.accountId
        authority.expireTokens()
        for _ in 0..<2 { authority.refuse(Fixture.refreshPath, refusal) }
        _ = try await client.session.rejected(first)
        #expect(authority.count(Fixture.guestPath) == 2 && client.accountId == account)
    }
}

/// The wait after a refusal with 429 (trap 13).
@Suite("Limited guests", .bounded)
struct GuestPauseTests {
    typealias Fixture = ClientFixture
    private let fixture = Fixture()
    private var authority: StagedAuthority { fixture.authority }

    private func refused(_ client: SanguineClient) async -> Int? {
        let error = await #expect(throws: SanguineError.self) {
            try await client.session.accessToken()
        }
        guard case .problem(let problem)? = error else { return nil }
        #expect(problem.code == .rateLimited && error?.errorClass == .waits)
        return problem.retryAfter
    }

    @Test func `no guest is requested before the time that the server has named`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        authority.refuse(Fixture.guestPath, Problem(.rateLimited, "Wait.", retryAfter: 600))
        #expect(await refused(client) == 600)
        fixture.clock.advance(by: .seconds(1))
        #expect(await refused(client) == 599)
        fixture.clock.advance(by: .seconds(598))
        #expect(await refused(client) == 1)
        #expect(authority.count(Fixture.guestPath) == 1)
        fixture.clock.advance(by: .seconds(1))
        _ = try await client.session.accessToken()
        #expect(authority.count(Fixture.guestPath) == 2)
    }

    @Test func `a clock that is set back does not extend the wait`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        authority.refuse(Fixture.guestPath, Problem(.rateLimited, "Wait.", retryAfter: 600))
        #expect(await refused(client) == 600)
        fixture.clock.advance(by: .seconds(-86_400))
        _ = try await client.session.accessToken()
    }

    @Test func `a short wait is waited for within the request`() async throws {
        let client = try fixture.client()
        defer { client.close() }
        authority.refuse(Fixture.guestPath, Problem(.rateLimited, "Wait.", retryAfter: 2))
        _ = try await client.session.accessToken()
        #expect(authority.count(Fixture.guestPath) == 2)
    }

    @Test func `a restart asks the server again`() async throws {
        try await Fixture.withFolder { folder in
            let first = try fixture.client(folder: folder)
            authority.refuse(Fixture.guestPath, Problem(.rateLimited, "Wait.", retryAfter: 600))
            #expect(await refused(first) == 600)
            first.close()
            let second = try fixture.client(folder: folder)
            defer { second.close() }
            _ = try await second.session.accessToken()
        }
    }

    @Test func `an error without a wait is no pause`() {
        let now = Timestamp(millisecondsSince1970: 0)
        #expect(GuestPause(.problem(Problem(.rateLimited, "Wait.")), at: now) == nil)
        #expect(GuestPause(.transport(.offline("no network")), at: now) == nil)
        let long = GuestPause(
            .problem(Problem(.rateLimited, "Wait.", retryAfter: 1_000_000)),
            at: now
        )
        #expect(long?.problem(at: now)?.retryAfter == 3_600)
    }
}
