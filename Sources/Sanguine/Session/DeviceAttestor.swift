public import Foundation

/// Proves to the server that a genuine app on a genuine device creates a guest.
///
/// On Apple's platforms, use `AppAttestor`. An app has another one for tests, or for a service
/// whose attestations its server verifies.
///
/// The client asks the server for a challenge when it creates a guest or signs it in again. If the
/// server verifies attestations, the client sends one of a new key, or an assertion by the key of
/// this device. If the server demands assertions, the client also sends one with each refresh of
/// the session. See ``SanguineClient/Configuration/deviceAttestor``.
///
/// The methods are called on any thread, one at a time for each user, and may take 40 seconds.
public protocol DeviceAttestor: Sendable {
    /// A Boolean value that indicates whether this device can attest keys.
    var isSupported: Bool { get }

    /// Creates a key in the device's secure hardware.
    ///
    /// - Returns: The identifier of the key.
    /// - Throws: ``DeviceAttestorError``.
    func makeKey() async throws(DeviceAttestorError) -> String

    /// Attests a new key.
    ///
    /// - Parameters:
    ///   - key: The identifier of the key.
    ///   - clientData: The bytes whose SHA-256 the attestation contains.
    /// - Returns: The attestation object.
    /// - Throws: ``DeviceAttestorError``; after ``DeviceAttestorError/unavailable``, the same key
    ///   is attested later.
    func attest(
        _ key: String,
        clientData: Data
    ) async throws(DeviceAttestorError) -> Data

    /// Signs bytes with an attested key.
    ///
    /// - Parameters:
    ///   - key: The identifier of the key.
    ///   - clientData: The bytes whose SHA-256 is signed.
    /// - Returns: The assertion object.
    /// - Throws: ``DeviceAttestorError``; after ``DeviceAttestorError/keyInvalid``, a new key is
    ///   attested.
    func assertion(
        by key: String,
        clientData: Data
    ) async throws(DeviceAttestorError) -> Data

    /// Returns a token by which Apple's DeviceCheck identifies this device.
    ///
    /// It is sent when a guest is created. Default: `nil`, for a server without a key for
    /// DeviceCheck, which refuses tokens.
    func deviceToken() async -> Data?
}

extension DeviceAttestor {
    /// No token; see ``DeviceAttestor/deviceToken()``.
    public func deviceToken() async -> Data? { nil }
}

/// The error of a ``DeviceAttestor``.
public enum DeviceAttestorError: Error, Hashable, Sendable {
    /// The device does not have the key, for example after the app was installed again.
    case keyInvalid
    /// The service cannot be reached; the request may be repeated.
    case unavailable
    /// The device cannot attest keys.
    case unsupported
}
