#if canImport(Security)
import Foundation
import Security

/// Stores the device's identity in the keychain: on this device only, and readable after the first
/// unlock, so that background work can sign in.
///
/// The identity survives the app's removal, and so does the guest's account.
struct KeychainIdentityVault: IdentityVault {
    /// The label of the server's identity: see ``Foundation/URL/identityLabel``.
    private let label: String
    /// The label that an earlier version has used: the text of the server's address.
    private let former: String?

    /// Creates a vault for the server with this label.
    init(label: String, former: String?) { (self.label, self.former) = (label, former) }

    func identity() throws(SanguineError) -> DeviceIdentity {
        if let kept = try read(label) { return kept }
        // The former item stays, because an earlier version may be installed again.
        var earlier: DeviceIdentity?
        if let former { earlier = try read(former) }
        let new = earlier ?? DeviceIdentity.random()
        guard let data = try? JSONEncoder().encode(new) else {
            throw .store(.writeFailed("the device's identity cannot be encoded."))
        }
        var item = item(label)
        item[kSecValueData] = data
        item[kSecAttrAccessible] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        switch SecItemAdd(item as CFDictionary, nil) {
        case errSecSuccess:
            return new
        case errSecDuplicateItem:
            // Another process has added it first.
            if let kept = try read(label) { return kept }
            throw .store(.readFailed("the device's keychain item cannot be read. Try again."))
        case let status:
            throw .store(.keychainNotWritten(status))
        }
    }

    func erase() throws(SanguineError) {
        for label in [label, former].compactMap(\.self) {
            let status = SecItemDelete(item(label) as CFDictionary)
            guard status == errSecSuccess || status == errSecItemNotFound else {
                throw .store(.keychainNotWritten(status))
            }
        }
    }

    private func read(_ label: String) throws(SanguineError) -> DeviceIdentity? {
        var query = item(label)
        query[kSecReturnData] = true
        query[kSecMatchLimit] = kSecMatchLimitOne
        var result: CFTypeRef?
        switch SecItemCopyMatching(query as CFDictionary, &result) {
        case errSecSuccess:
            guard let data = result as? Data,
                let kept = try? JSONDecoder().decode(DeviceIdentity.self, from: data)
            else {
                throw .store(
                    .readFailed("the device's keychain item is of another kind. Remove the item.")
                )
            }
            return kept
        case errSecItemNotFound:
            return nil
        case let status:
            throw .store(.keychainNotRead(status))
        }
    }

    private func item(_ label: String) -> [CFString: Any] {
        [
            kSecClass: kSecClassGenericPassword,
            kSecAttrService: "sanguine.device-identity",
            kSecAttrAccount: label,
        ]
    }
}
#endif
