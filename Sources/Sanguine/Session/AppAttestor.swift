#if canImport(DeviceCheck)
import CryptoKit
import DeviceCheck
public import Foundation

/// Attests this device by Apple's App Attest.
///
/// Add the capability *App Attest* to the app. In apps that Xcode installs, its environment is
/// development, so the server needs the setting `attestation.environment: development`.
public struct AppAttestor: DeviceAttestor {
    private let sendsDeviceToken: Bool

    /// Creates an attestor.
    ///
    /// - Parameter sendsDeviceToken: Whether the token of DeviceCheck is sent too. The server needs
    ///   the key of the setting `deviceCheck.keyFile`, otherwise it refuses to create a guest.
    ///   Default: no.
    public init(sendsDeviceToken: Bool = false) { self.sendsDeviceToken = sendsDeviceToken }

    /// See ``DeviceAttestor/isSupported``.
    public var isSupported: Bool { DCAppAttestService.shared.isSupported }

    /// See ``DeviceAttestor/makeKey()``.
    public func makeKey() async throws(DeviceAttestorError) -> String {
        do {
            return try await DCAppAttestService.shared.generateKey()
        } catch {
            throw Self.error(error)
        }
    }

    /// See ``DeviceAttestor/attest(_:clientData:)``.
    public func attest(
        _ key: String,
        clientData: Data
    ) async throws(DeviceAttestorError) -> Data {
        do {
            return try await DCAppAttestService.shared.attestKey(
                key,
                clientDataHash: Data(SHA256.hash(data: clientData))
            )
        } catch {
            throw Self.error(error)
        }
    }

    /// See ``DeviceAttestor/assertion(by:clientData:)``.
    public func assertion(
        by key: String,
        clientData: Data
    ) async throws(DeviceAttestorError) -> Data {
        do {
            return try await DCAppAttestService.shared.generateAssertion(
                key,
                clientDataHash: Data(SHA256.hash(data: clientData))
            )
        } catch {
            // An assertion needs no network. The system reports a lost key as an unknown failure.
            throw Self.error(error) == .unavailable ? .keyInvalid : Self.error(error)
        }
    }

    /// See ``DeviceAttestor/deviceToken()``.
    public func deviceToken() async -> Data? {
        guard sendsDeviceToken, DCDevice.current.isSupported else { return nil }
        return try? await DCDevice.current.generateToken()
    }

    private static func error(_ error: any Error) -> DeviceAttestorError {
        switch (error as? DCError)?.code {
        case .featureUnsupported: .unsupported
        case .invalidKey, .invalidInput: .keyInvalid
        default: .unavailable
        }
    }
}
#endif
