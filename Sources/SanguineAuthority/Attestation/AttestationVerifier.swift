public import SanguineModel

/// Verifies attestations of devices.
///
/// The authority checks challenges, stores keys, and compares counters; a verifier checks the
/// cryptographic statements. ``AppAttest`` is the verifier for Apple's devices.
public protocol AttestationVerifier: Sendable {
    /// Verifies the attestation of a new key.
    ///
    /// - Parameters:
    ///   - attestation: The attestation.
    ///   - clientData: The bytes whose hash the device attested.
    ///   - now: The current time.
    /// - Returns: The key.
    /// - Throws: The check that failed.
    func attest(
        _ attestation: DeviceAttestation,
        clientData: [UInt8],
        at now: Timestamp
    ) async throws(AttestationFault) -> AttestedPublicKey

    /// Verifies an assertion by an attested key.
    ///
    /// - Parameters:
    ///   - assertion: The assertion.
    ///   - clientData: The bytes whose hash the device signed.
    ///   - key: The key that was attested.
    /// - Returns: The counter, which the authority compares with the last one.
    /// - Throws: The check that failed.
    func verify(
        _ assertion: DeviceAssertion,
        clientData: [UInt8],
        by key: AttestedPublicKey
    ) async throws(AttestationFault) -> UInt32
}

/// A public key that was attested.
public struct AttestedPublicKey: Hashable, Codable, Sendable {
    /// The identifier of the key: the SHA-256 of ``point``.
    public var id: [UInt8]
    /// The point on P-256, uncompressed (ANSI X9.63).
    public var point: [UInt8]

    /// Creates the key.
    public init(id: [UInt8], point: [UInt8]) {
        self.id = id
        self.point = point
    }
}
