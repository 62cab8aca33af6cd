import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Attestations", .bounded)
struct AttestationTests {
    private let key = TestAppAttest.Key()

    @Test func `an attested device gets an account`() async throws {
        let world = try AttestedWorld()
        #expect(try await world.attested(key).isNew)
    }

    @Test func `a new device without an attestation is refused`() async throws {
        let world = try AttestedWorld()
        await world.expect(.missing) { _ = try await world.guest() }
    }

    @Test func `an optional attestation may be missing, but not be wrong`() async throws {
        let world = try AttestedWorld { $0.guests = .optional }
        #expect(try await world.guest(1).isNew)
        await world.expect(.nonce) {
            let wrong = try world.service.attestation(of: key, try world.challenge(), .nonce)
            _ = try await world.guest(2, wrong)
        }
    }

    @Test(arguments: TestAppAttest.Flaw.allCases)
    func `an attestation with one wrong part is refused, and told which`(
        flaw: TestAppAttest.Flaw
    ) async throws {
        let world = try AttestedWorld()
        let fault: AttestationFault =
            switch flaw {
            case .format: .format
            case .expired, .foreignIntermediate, .shortChain: .certificates
            case .nonce, .withoutNonce: .nonce
            case .credential: .keyID
            case .app: .app
            case .counter: .counter
            case .environment: .environment
            }
        await world.expect(fault, "\(flaw)") {
            let wrong = try world.service.attestation(of: key, try world.challenge(), flaw)
            _ = try await world.guest(1, wrong)
        }
        #expect(try await world.authority.account(deviceID: AttestedWorld.device(1)) == nil)
    }

    @Test func `an attestation below another root is refused`() async throws {
        let world = try AttestedWorld()
        let other = try TestAppAttest(at: ManualClock.start)
        await world.expect(.certificates) {
            _ = try await world.guest(1, try other.attestation(of: key, try world.challenge()))
        }
    }

    @Test func `an attestation with the identifier of another key is refused`() async throws {
        let world = try AttestedWorld()
        await world.expect(.keyID) {
            var wrong = try world.service.attestation(of: key, try world.challenge())
            wrong.keyId = TestAppAttest.Key().id
            _ = try await world.guest(1, wrong)
        }
    }

    @Test func `a challenge works once`() async throws {
        let world = try AttestedWorld()
        let challenge = try world.challenge()
        _ = try await world.guest(1, try world.service.attestation(of: key, challenge))
        await world.expect(.challengeUsed) {
            let other = TestAppAttest.Key()
            _ = try await world.guest(2, try world.service.attestation(of: other, challenge))
        }
    }

    @Test func `a challenge expires after five minutes`() async throws {
        let world = try AttestedWorld()
        let challenge = try world.challenge()
        world.clock.advance(by: .seconds(300))
        await world.expect(.challenge) {
            _ = try await world.guest(1, try world.service.attestation(of: key, challenge))
        }
    }

    @Test func `a challenge of another server is refused`() async throws {
        let world = try AttestedWorld()
        let foreign = try AttestedWorld().challenge()
        for challenge in [foreign, "", String(repeating: "A", count: 75)] {
            await world.expect(.challenge) {
                _ = try await world.guest(1, try world.service.attestation(of: key, challenge))
            }
        }
    }

    @Test func `a repeated request of an attested device signs it in`() async throws {
        let world = try AttestedWorld()
        let attestation = try world.service.attestation(of: key, try world.challenge())
        let first = try await world.guest(1, attestation)
        let again = try await world.guest(1)
        #expect(first.signedIn.account.id == again.signedIn.account.id && !again.isNew)
    }

    @Test func `the same attestation again signs the device in while its challenge is valid`()
        async throws
    {
        let world = try AttestedWorld { $0.demandsAssertions = true }
        let attestation = try world.service.attestation(of: key, try world.challenge())
        let first = try await world.guest(1, attestation)
        let again = try await world.guest(1, attestation)
        #expect(first.signedIn.account.id == again.signedIn.account.id && !again.isNew)
        world.clock.advance(by: .seconds(300))
        await world.expect(.challenge) { _ = try await world.guest(1, attestation) }
    }

    @Test func `of simultaneous requests with the same attestation all find one account`()
        async throws
    {
        let world = try AttestedWorld { $0.demandsAssertions = true }
        let attestation = try world.service.attestation(of: key, try world.challenge())
        let accounts = try await withThrowingTaskGroup(of: Identifier.self) { group in
            for _ in 0..<20 {
                group.addTask { try await world.guest(1, attestation).signedIn.account.id }
            }
            return try await group.reduce(into: Set<Identifier>()) { $0.insert($1) }
        }
        #expect(accounts.count == 1)
    }

    @Test func `an attestation is no use to a device with another secret`() async throws {
        let world = try AttestedWorld()
        let attestation = try world.service.attestation(of: key, try world.challenge())
        _ = try await world.guest(1, attestation)
        let problem = await #expect(throws: Problem.self) {
            _ = try await world.authority.guest(
                GuestRequest(
                    deviceId: AttestedWorld.device(1),
                    deviceSecret: Base64URL.encode([UInt8](repeating: 8, count: 32)),
                    attestation: attestation
                )
            )
        }
        #expect(problem?.code == .deviceSecretMismatch)
    }

    @Test func `a key belongs to one device`() async throws {
        let world = try AttestedWorld()
        try await world.attested(key)
        await world.expect(.key) { try await world.attested(key, 2) }
    }

    @Test func `a known device may attest a new key`() async throws {
        let world = try AttestedWorld { $0.demandsAssertions = true }
        try await world.attested(key)
        let new = TestAppAttest.Key()
        #expect(try await !world.attested(new).isNew)
        await world.expect(.key) {
            let old = try key.assertion(
                try world.challenge(),
                for: AttestedWorld.device(1),
                counter: 1
            )
            _ = try await world.guest(1, nil, old)
        }
    }

    @Test func `a server without attestation refuses to issue a challenge`() throws {
        let authority = Authority(storage: MemoryStorage(), keys: SigningKeys())
        let problem = #expect(throws: Problem.self) { try authority.attestationChallenge() }
        #expect(problem == AttestationFault.notConfigured.problem)
    }

    @Test func `every refusal has the same code and names its check`() {
        for fault in AttestationFault.allCases {
            #expect(fault.problem.code == .attestationFailed)
            #expect(fault.problem.detail.contains("check: \(fault.rawValue)"))
        }
    }
}

@Suite("Assertions", .bounded)
struct AssertionTests {
    private let key = TestAppAttest.Key()
    private let world: AttestedWorld

    init() throws { world = try AttestedWorld { $0.demandsAssertions = true } }

    private func assertion(
        for subject: String = AttestedWorld.device(1),
        counter: UInt32 = 1
    ) throws -> DeviceAssertion {
        try key.assertion(try world.challenge(), for: subject, counter: counter)
    }

    @Test func `an attested device signs in with an assertion`() async throws {
        try await world.attested(key)
        #expect(try await !world.guest(1, nil, try assertion()).isNew)
    }

    @Test func `an attested device without an assertion is refused`() async throws {
        try await world.attested(key)
        await world.expect(.assertionMissing) { _ = try await world.guest(1) }
    }

    @Test func `a counter that does not increase is refused`() async throws {
        try await world.attested(key)
        _ = try await world.guest(1, nil, try assertion(counter: 5))
        for counter: UInt32 in [5, 4, 0] {
            await world.expect(.counter) {
                _ = try await world.guest(1, nil, try assertion(counter: counter))
            }
        }
        _ = try await world.guest(1, nil, try assertion(counter: 6))
    }

    @Test func `a repeated assertion is refused`() async throws {
        try await world.attested(key)
        let assertion = try assertion()
        _ = try await world.guest(1, nil, assertion)
        await world.expect(.challengeUsed) { _ = try await world.guest(1, nil, assertion) }
    }

    @Test func `of simultaneous uses of an assertion one succeeds`() async throws {
        try await world.attested(key)
        let assertion = try assertion()
        let succeeded = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<20 {
                group.addTask { (try? await world.guest(1, nil, assertion)) != nil }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(succeeded == 1)
    }

    @Test func `an assertion about another device is refused`() async throws {
        try await world.attested(key)
        await world.expect(.signature) {
            _ = try await world.guest(1, nil, try assertion(for: AttestedWorld.device(2)))
        }
    }

    @Test func `an assertion of another app is refused`() async throws {
        try await world.attested(key)
        await world.expect(.app) {
            let wrong = try key.assertion(
                try world.challenge(),
                for: AttestedWorld.device(1),
                counter: 1,
                app: "TEAM123456.com.example.other"
            )
            _ = try await world.guest(1, nil, wrong)
        }
    }

    @Test func `an assertion by the key of another device is refused`() async throws {
        let other = TestAppAttest.Key()
        try await world.attested(key)
        try await world.attested(other, 2)
        await world.expect(.key) {
            let wrong = try other.assertion(
                try world.challenge(),
                for: AttestedWorld.device(1),
                counter: 1
            )
            _ = try await world.guest(1, nil, wrong)
        }
    }

    @Test func `an assertion with an identifier of another length is refused`() async throws {
        try await world.attested(key)
        for id in ["", "AAAA", String(repeating: "A", count: 30_000)] {
            await world.expect(.keyID) {
                var wrong = try assertion()
                wrong.keyId = id
                _ = try await world.guest(1, nil, wrong)
            }
        }
    }

    @Test func `an assertion by a key that was not attested is refused`() async throws {
        let world = try AttestedWorld { $0.guests = .optional }
        _ = try await world.guest(1)
        await world.expect(.key) {
            let wrong = try key.assertion(
                try world.challenge(),
                for: AttestedWorld.device(1),
                counter: 1
            )
            _ = try await world.guest(1, nil, wrong)
        }
    }

    @Test func `a nonce that is signed without a second hash is refused`() async throws {
        try await world.attested(key)
        await world.expect(.signature) {
            let wrong = try key.assertion(
                try world.challenge(),
                for: AttestedWorld.device(1),
                counter: 1,
                isHashedOnce: true
            )
            _ = try await world.guest(1, nil, wrong)
        }
    }

    @Test func `extensions after the counter are accepted`() async throws {
        try await world.attested(key)
        let assertion = try key.assertion(
            try world.challenge(),
            for: AttestedWorld.device(1),
            counter: 1,
            extensions: TestCBOR.map([("validationCategory", TestCBOR.text("1"))])
        )
        #expect(try await !world.guest(1, nil, assertion).isNew)
    }

    @Test func `an attested session is refreshed only with an assertion`() async throws {
        let session = try await world.attested(key).signedIn.session
        await world.expect(.assertionMissing) {
            _ = try await world.authority.refresh(
                RefreshRequest(refreshToken: session.refreshToken)
            )
        }
        let assertion = try assertion(for: session.refreshToken)
        let next = try await world.authority.refresh(
            RefreshRequest(refreshToken: session.refreshToken, assertion: assertion)
        )
        await world.expect(.counter) {
            let old = try self.assertion(for: next.refreshToken, counter: 1)
            _ = try await world.authority.refresh(
                RefreshRequest(refreshToken: next.refreshToken, assertion: old)
            )
        }
    }

    @Test func `a refused refresh does not rotate the token`() async throws {
        let session = try await world.attested(key).signedIn.session
        await world.expect(.assertionMissing) {
            _ = try await world.authority.refresh(
                RefreshRequest(refreshToken: session.refreshToken)
            )
        }
        world.clock.advance(by: .seconds(120))
        let assertion = try assertion(for: session.refreshToken)
        _ = try await world.authority.refresh(
            RefreshRequest(refreshToken: session.refreshToken, assertion: assertion)
        )
    }

    @Test func `an assertion about another refresh token is refused`() async throws {
        let session = try await world.attested(key).signedIn.session
        await world.expect(.signature) {
            let wrong = try assertion(for: "another token")
            _ = try await world.authority.refresh(
                RefreshRequest(refreshToken: session.refreshToken, assertion: wrong)
            )
        }
    }
}
