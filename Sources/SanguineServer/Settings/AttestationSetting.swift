import Foundation
import SanguineAuthority

extension ServerSettings {
    /// The attestation of devices by Apple's App Attest and DeviceCheck.
    public struct Attestation: Hashable, Sendable {
        /// Whether new guests must be attested: `none`, `optional` or `required`.
        ///
        /// Default: `none`.
        public var guests = "none"
        /// Whether attested devices must send an assertion to sign in and to refresh: `none` or
        /// `required`.
        ///
        /// Default: `none`.
        public var assertions = "none"
        /// The team's identifier, a full stop, and the app's bundle identifier.
        ///
        /// Default: `nil`; needed unless ``guests`` is `none` or DeviceCheck has a key.
        public var appId: String?
        /// The only accepted environment of App Attest: `production` or `development`.
        ///
        /// Default: `production`.
        public var environment = "production"
        /// The files of the trusted root certificates, in DER or PEM.
        ///
        /// Default: none; needed with ``appId``.
        public var roots: [String] = []

        /// Reads the root certificates.
        ///
        /// - Returns: The rules of the authority, or `nil` if attestation is off.
        /// - Throws: ``SettingsError`` for files that contain no certificate.
        func load() throws(SettingsError) -> AttestationSettings? {
            guard let guests = AttestationSettings.Demand(rawValue: guests) else { return nil }
            var certificates: [AppAttestRoot] = []
            for path in roots {
                guard let data = FileManager.default.contents(atPath: path) else {
                    throw SettingsError([
                        .unreadable(file: path, reason: "the file does not exist.")
                    ])
                }
                do throws(AppAttestRootError) {
                    certificates.append(try AppAttestRoot(Array(data)))
                } catch {
                    throw SettingsError([.unreadable(file: path, reason: error.description)])
                }
            }
            return AttestationSettings(
                guests: guests,
                demandsAssertions: assertions == "required",
                appAttest: appId.map { app in
                    AppAttestSettings(
                        appID: app,
                        environment: environment == "development" ? .development : .production,
                        roots: certificates
                    )
                }
            )
        }
    }

    var problemsOfAttestation: [SettingsError.Problem] {
        func refusal(_ name: String, _ value: String, _ allowed: String) -> SettingsError.Problem {
            .invalid(
                setting: "attestation.\(name)",
                value: value,
                allowed: allowed,
                source: "settings"
            )
        }
        guard attestation.guests != "none" else {
            guard attestation.assertions != "none" else { return [] }
            return [
                refusal(
                    "assertions",
                    attestation.assertions,
                    "none, because 'attestation.guests' is none"
                )
            ]
        }
        // DeviceCheck alone is enough for guests.
        let isDeviceCheckOnly =
            deviceCheck.keyId != nil && attestation.appId == nil && attestation.roots.isEmpty
            && attestation.assertions == "none"
        guard !isDeviceCheckOnly else { return [] }
        var problems: [SettingsError.Problem] = []
        if attestation.appId == nil {
            let allowed = "TEAM.bundle, because 'attestation.guests' is not none"
            problems.append(refusal("appId", "", allowed))
        }
        if attestation.roots.isEmpty {
            let allowed = "at least one file, because attestations are signed below a root"
            problems.append(refusal("roots", "", allowed))
        }
        return problems
    }
}
