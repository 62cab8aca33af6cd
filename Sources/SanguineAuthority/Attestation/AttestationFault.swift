public import SanguineModel

/// The check that an attestation or assertion failed.
public enum AttestationFault: String, Error, Hashable, Sendable, CaseIterable {
    /// The server does not verify attestations.
    case notConfigured
    /// The request has no attestation, and the server requires one.
    case missing
    /// The request has no assertion, and the server requires one.
    case assertionMissing
    /// The challenge is unknown or has expired.
    case challenge
    /// The challenge was used before.
    case challengeUsed
    /// The object is not of the documented format.
    case format
    /// The certificates are no valid chain to a configured root.
    case certificates
    /// The nonce is not that of the challenge.
    case nonce
    /// The key's identifier is not that of the attested key.
    case keyID
    /// The attestation is of another app.
    case app
    /// The counter did not increase.
    case counter
    /// The attestation is of the other environment.
    case environment
    /// The key was attested by another device, or by none.
    case key
    /// The signature is not valid.
    case signature
    /// The server does not use DeviceCheck.
    case deviceCheckNotConfigured
    /// Apple does not know the token of DeviceCheck.
    case deviceCheckToken
    /// The device is marked as blocked.
    case deviceBlocked

    /// The refusal.
    public var problem: Problem { Problem(.attestationFailed, "\(detail) (check: \(rawValue))") }

    private var detail: String {
        switch self {
        case .notConfigured:
            "Send no attestation: the server's setting 'attestation.guests' is none."
        case .missing:
            "Attest the app with a challenge of /v1/attestation/challenge, and send the result."
        case .assertionMissing:
            "Send an assertion with the attested key, or attest the app again."
        case .challenge: "Get a new challenge: this one is not the server's, or has expired."
        case .challengeUsed: "Get a new challenge: this one was used before."
        case .format: "Send the object that App Attest returned, unchanged and in base64."
        case .certificates: "Attest again: the certificates are not of the configured root."
        case .nonce: "Attest again, with the SHA-256 of the challenge's text as the client data."
        case .keyID: "Send the identifier of the key that was attested."
        case .app: "Use the app of the server's 'attestation.appId' setting."
        case .counter: "Create a new assertion: this one is not newer than the last."
        case .environment: "Use a server for the environment in which the app was built."
        case .key: "Attest a new key on this device, and send its attestation."
        case .signature: "Sign the challenge, a full stop, and the device id or refresh token."
        case .deviceCheckNotConfigured:
            "Send no DeviceCheck token: the server has no key for DeviceCheck."
        case .deviceCheckToken: "Send a new token of DCDevice: Apple refused this one."
        case .deviceBlocked: "Ask the support of the app: this device was blocked."
        }
    }
}
