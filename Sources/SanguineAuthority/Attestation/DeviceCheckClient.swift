import SanguineModel

/// Asks Apple's DeviceCheck about a device.
///
/// Apple stores two bits for each device and developer, which survive an erased device. The
/// authority uses bit 0 for *has had the grant of a new guest*: a new guest on such a device gets
/// none. An operator may set bit 1 to block a device.
public protocol DeviceCheckClient: Sendable {
    /// Returns the bits of the device (`query_two_bits`).
    func query(_ token: String) async throws(DeviceCheckError) -> DeviceCheckBits

    /// Sets the bits of the device (`update_two_bits`).
    func update(_ token: String, _ bits: DeviceCheckBits) async throws(DeviceCheckError)
}

/// The two bits of a device.
public struct DeviceCheckBits: Hashable, Sendable {
    /// Whether the device has had the grant of a new guest.
    public var hasHadGrant: Bool
    /// Whether the operator has blocked the device.
    public var isBlocked: Bool

    /// Creates the bits; those of a device that was never set are false.
    public init(hasHadGrant: Bool = false, isBlocked: Bool = false) {
        self.hasHadGrant = hasHadGrant
        self.isBlocked = isBlocked
    }
}

/// The error of a request to DeviceCheck.
public enum DeviceCheckError: Error, Hashable, Sendable {
    /// Apple does not accept the token.
    case invalidToken
    /// Apple could not be reached, or did not accept the server's key.
    case unavailable
}

extension DeviceCheckError {
    var problem: Problem {
        switch self {
        case .invalidToken: AttestationFault.deviceCheckToken.problem
        case .unavailable:
            Problem(
                .overloaded,
                "Send the request again: Apple's DeviceCheck could not be reached.",
                retryAfter: 5
            )
        }
    }
}
