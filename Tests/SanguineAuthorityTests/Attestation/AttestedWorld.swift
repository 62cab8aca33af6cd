import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// An authority that requires attestations of a made App Attest.
struct AttestedWorld: Sendable {
    let service: TestAppAttest
    let clock = ManualClock()
    let authority: Authority

    init(
        client: (any DeviceCheckClient)? = nil,
        guestsPerHour: Int = 0,
        _ change: (inout AttestationSettings) -> Void = { _ in }
    ) throws {
        service = try TestAppAttest(at: ManualClock.start)
        var settings = AuthoritySettings()
        var rules = AttestationSettings(
            appAttest: AppAttestSettings(
                appID: TestAppAttest.app,
                roots: [try AppAttestRoot(service.root)]
            )
        )
        change(&rules)
        settings.attestation = rules
        settings.guestsPerHour = guestsPerHour
        authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings,
            clock: clock,
            deviceCheck: client
        )
    }

    static func device(_ number: Int) -> String { "device-number-\(100_000 + number)" }

    func challenge() throws -> String { try authority.attestationChallenge().challenge }

    func guest(
        _ number: Int = 1,
        _ attestation: DeviceAttestation? = nil,
        _ assertion: DeviceAssertion? = nil,
        token: String? = nil,
        from address: String? = nil
    ) async throws -> GuestOutcome {
        try await authority.guest(
            GuestRequest(
                deviceId: Self.device(number),
                deviceSecret: Base64URL.encode([UInt8](repeating: 7, count: 32)),
                attestation: attestation,
                assertion: assertion,
                deviceCheckToken: token
            ),
            from: address
        )
    }

    @discardableResult
    func attested(_ key: TestAppAttest.Key, _ number: Int = 1) async throws -> GuestOutcome {
        try await guest(number, try service.attestation(of: key, try challenge()))
    }

    /// Expects that the body is refused by a check.
    func expect(
        _ fault: AttestationFault,
        _ name: String = "",
        _ location: SourceLocation = #_sourceLocation,
        _ body: () async throws -> Void
    ) async {
        let problem = await #expect(throws: Problem.self, sourceLocation: location) {
            try await body()
        }
        #expect(problem == fault.problem, "\(name)", sourceLocation: location)
    }
}
