import Foundation

/// The credentials with which this device identifies itself: created once and kept forever.
///
/// They are stored durably before they are sent to the server. So a process that is killed while
/// its account is being created returns to the same account.
struct DeviceIdentity: Hashable, Codable, Sendable {
    /// A random UUID.
    let deviceId: String
    /// 32 random bytes in base64url without padding.
    ///
    /// Never logged.
    let deviceSecret: String

    /// Creates an identity from the system's secure random numbers.
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

/// Stores a device's identity.
protocol IdentityVault: Sendable {
    /// Returns the stored identity, or creates one and stores it durably before it returns.
    ///
    /// Concurrent processes all get the same identity.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if it can be neither read nor stored.
    func identity() throws(SanguineError) -> DeviceIdentity

    /// Removes the identity: the next call creates another one.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if it could not be removed.
    func erase() throws(SanguineError)
}

extension URL {
    /// Identifies a server among the device's identities: the server's origin, however its address
    /// is written.
    ///
    /// An address can be written in many ways: with a trailing slash, with the default port, in
    /// upper case. Each would become another device, and another guest.
    var identityLabel: String {
        guard let origin else { return absoluteString }
        return "\(origin[0])://\(origin[1]):\(origin[2])"
    }
}

extension SanguineClient.Configuration {
    /// Returns the vault for this client's device identity.
    ///
    /// It is the keychain, if the platform has one, with an item for each server and folder: two
    /// folders are two devices. Elsewhere, and for a temporary folder, it is a file in the folder,
    /// whose loss is recorded in the store's report.
    func identityVault(reportingTo log: StoreLog) -> any IdentityVault {
        guard let storeFolder else { return MemoryIdentityVault() }
        let file = FileIdentityVault(folder: storeFolder) { file in
            log.movedAside(file, because: "The device's identity could not be read.")
        }
        #if canImport(Security)
        return keychainVault(KeychainItems(), file)
        #else
        return file
        #endif
    }

    /// Returns the vault in the keychain; the file if the folder is a temporary one.
    func keychainVault(_ items: any SecretItems, _ file: FileIdentityVault) -> any IdentityVault {
        let label = server?.identityLabel ?? ""
        guard let folder else {
            let former = [server?.absoluteString].compactMap(\.self)
            return KeychainIdentityVault(items, label: label, former: former)
        }
        guard let place = folder.folderLabel else { return file }
        return KeychainIdentityVault(items, label: "\(label) \(place)", file: file)
    }
}
