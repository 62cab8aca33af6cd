import SwiftASN1
import X509

/// The attestation of devices.
///
/// ```swift
/// var settings = AuthoritySettings()
/// settings.attestation = AttestationSettings(
///     appAttest: AppAttestSettings(appID: "TEAM123456.com.example.app", roots: [root])
/// )
/// ```
public struct AttestationSettings: Hashable, Sendable {
    /// Whether new guests must be attested.
    public enum Demand: String, Hashable, Sendable, CaseIterable {
        /// An attestation that is sent must be valid.
        case optional
        /// New guests without an attestation or a DeviceCheck token are refused.
        case required
    }

    /// Whether new guests must be attested.
    ///
    /// Default: required.
    public var guests: Demand
    /// Whether a device with an attested key must send an assertion to sign in and to refresh its
    /// session.
    ///
    /// Default: no.
    public var demandsAssertions: Bool
    /// The app that App Attest attests.
    ///
    /// Default: `nil`; only another ``AttestationVerifier`` or DeviceCheck can be used.
    public var appAttest: AppAttestSettings?

    /// Creates the settings.
    public init(
        guests: Demand = .required,
        demandsAssertions: Bool = false,
        appAttest: AppAttestSettings? = nil
    ) {
        self.guests = guests
        self.demandsAssertions = demandsAssertions
        self.appAttest = appAttest
    }
}

/// The app whose attestations are accepted.
public struct AppAttestSettings: Hashable, Sendable {
    /// An environment of App Attest.
    public enum Environment: String, Hashable, Sendable, CaseIterable {
        /// Apps from TestFlight and the App Store.
        case production
        /// Apps that Xcode installed.
        case development
    }

    /// The team's identifier, a full stop, and the bundle identifier.
    public var appID: String
    /// The only accepted environment.
    ///
    /// Default: production.
    public var environment: Environment
    /// The trusted root certificates: Apple App Attestation Root CA, except in tests.
    public var roots: [AppAttestRoot]

    /// Creates the settings.
    public init(
        appID: String,
        environment: Environment = .production,
        roots: [AppAttestRoot]
    ) {
        self.appID = appID
        self.environment = environment
        self.roots = roots
    }
}

/// A trusted root certificate of App Attest.
public struct AppAttestRoot: Hashable, Sendable {
    let certificate: Certificate

    /// Reads a certificate in DER or PEM.
    ///
    /// - Throws: ``AppAttestRootError`` if the bytes are no X.509 certificate.
    public init(_ bytes: [UInt8]) throws(AppAttestRootError) {
        do {
            certificate =
                bytes.starts(with: "-----BEGIN".utf8)
                ? try Certificate(pemEncoded: String(decoding: bytes, as: UTF8.self))
                : try Certificate(derEncoded: bytes)
        } catch {
            throw AppAttestRootError()
        }
    }
}

/// The error for a file that contains no root certificate.
public struct AppAttestRootError: Error, Hashable, CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        """
        The file contains no X.509 certificate. Download Apple App Attestation Root CA in DER or \
        PEM.
        """
    }
}
