import Foundation

/// How this device proves that it is itself: made once, kept for good.
///
/// It is kept durably before the server first hears of it. So a process that is killed while its
/// account is being created comes back to that same account.
struct DeviceIdentity: Hashable, Codable, Sendable {
    /// A random UUID.
    let deviceId: String
    /// 32 random bytes in base64url without padding.
    ///
    /// Never logged.
    let deviceSecret: String

    /// Makes an identity from the system's secure random numbers.
    static func random() -> DeviceIdentity {
        var random = SystemRandomNumberGenerator()
        let secret = (0..<4).flatMap { _ in
            withUnsafeBytes(of: random.next() as UInt64) { Array($0) }
        }
        let text = Data(secret).base64EncodedString()
            .replacing("+", with: "-")
            .replacing("/", with: "_")
            .replacing("=", with: "")
        return DeviceIdentity(
            deviceId: UUID().uuidString.lowercased(),
            deviceSecret: text
        )
    }
}

/// Where a device's identity is kept.
protocol IdentityVault: Sendable {
    /// Returns the identity that is kept, or makes one and keeps it durably before it returns.
    ///
    /// Of several processes that do so at once all get the same.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if it can be neither read nor kept.
    func identity() throws(SanguineError) -> DeviceIdentity

    /// Forgets the identity: whoever asks next gets another one.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if it could not be removed.
    func erase() throws(SanguineError)
}

extension URL {
    /// What tells one server's identity of the device from another's: the server's origin, however
    /// its address is written.
    ///
    /// The text of an address has many forms: with a slash at the end, with the default port, in
    /// upper case. Each would be another device, and another guest.
    var identityLabel: String {
        guard let origin else { return absoluteString }
        return "\(origin[0])://\(origin[1]):\(origin[2])"
    }
}

extension SanguineClient.Configuration {
    /// Where this client's device identity is kept.
    ///
    /// The keychain where there is one; but a client that was given a folder has all of its state
    /// in there, so that two folders are two devices. A file that is lost is said in the store's
    /// report.
    func identityVault(reportingTo log: StoreLog) -> any IdentityVault {
        guard let storeFolder else { return MemoryIdentityVault() }
        #if canImport(Security)
        if folder == nil {
            return KeychainIdentityVault(
                label: server?.identityLabel ?? "",
                former: server?.absoluteString
            )
        }
        #endif
        return FileIdentityVault(folder: storeFolder) { file in
            log.movedAside(file, because: "The device's identity could not be read.")
        }
    }
}
