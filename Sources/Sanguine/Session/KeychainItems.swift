#if canImport(Security)
import Foundation
import Security

/// The items of the keychain that are bound to this device.
struct KeychainItems: SecretItems {
    func read(_ label: String) throws(SanguineError) -> Data? {
        var query = item(label)
        query[kSecReturnData] = true
        query[kSecMatchLimit] = kSecMatchLimitOne
        var result: CFTypeRef?
        switch SecItemCopyMatching(query as CFDictionary, &result) {
        case errSecSuccess: return result as? Data ?? Data()
        case errSecItemNotFound: return nil
        case let status: throw .store(.keychainNotRead(status))
        }
    }

    func add(_ data: Data, _ label: String) throws(SanguineError) -> Bool {
        var item = item(label)
        item[kSecValueData] = data
        item[kSecAttrAccessible] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
        switch SecItemAdd(item as CFDictionary, nil) {
        case errSecSuccess: return true
        case errSecDuplicateItem: return false
        case let status: throw .store(.keychainNotWritten(status))
        }
    }

    func remove(_ label: String) throws(SanguineError) {
        let status = SecItemDelete(item(label) as CFDictionary)
        guard status == errSecSuccess || status == errSecItemNotFound else {
            throw .store(.keychainNotWritten(status))
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
