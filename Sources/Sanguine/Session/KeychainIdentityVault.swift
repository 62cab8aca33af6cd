import Foundation

/// Items of a device's secrets, such as the keychain's, by their labels.
protocol SecretItems: Sendable {
    /// Returns the item; `nil` if there is none.
    func read(_ label: String) throws(SanguineError) -> Data?

    /// Adds an item; returns whether there was none.
    func add(_ data: Data, _ label: String) throws(SanguineError) -> Bool

    /// Removes the item, if there is one.
    func remove(_ label: String) throws(SanguineError)
}

/// Stores the device's identity in the keychain: on this device only, and readable after the first
/// unlock, so that background work can sign in.
///
/// The identity survives the app's removal, and so does the guest's account. It is part of no
/// backup: another phone to which a backup is restored gets an identity of its own, so that both
/// phones work.
///
/// An identity that an earlier version stored in the client's folder is moved to the keychain.
struct KeychainIdentityVault: IdentityVault {
    private let items: any SecretItems
    /// The label of the client's identity.
    private let label: String
    /// The labels that earlier versions used, the newest first.
    private let former: [String]
    /// The folder's file, in which earlier versions stored the identity.
    private let file: FileIdentityVault?

    /// Creates a vault for the client with this label.
    init(
        _ items: any SecretItems,
        label: String,
        former: [String] = [],
        file: FileIdentityVault? = nil
    ) {
        (self.items, self.label, self.former, self.file) = (items, label, former, file)
    }

    func identity() throws(SanguineError) -> DeviceIdentity {
        if let kept = try read(label) {
            // A process that was killed between the two steps has left the file.
            try file?.erase()
            return kept
        }
        let new = try earlier() ?? .random()
        guard let data = try? JSONEncoder().encode(new) else {
            throw .store(.writeFailed("the device's identity cannot be encoded."))
        }
        if try items.add(data, label) {
            try file?.erase()
            return new
        }
        // Another process has added it first.
        if let kept = try read(label) { return kept }
        throw .store(.readFailed("the device's keychain item cannot be read. Try again."))
    }

    /// The identity that an earlier version stored.
    ///
    /// The former items stay, because an earlier version may be installed again.
    private func earlier() throws(SanguineError) -> DeviceIdentity? {
        if let stored = try file?.stored() { return stored }
        for label in former {
            if let stored = try read(label) { return stored }
        }
        return nil
    }

    func erase() throws(SanguineError) {
        for label in [label] + former { try items.remove(label) }
        try file?.erase()
    }

    private func read(_ label: String) throws(SanguineError) -> DeviceIdentity? {
        guard let data = try items.read(label) else { return nil }
        guard let kept = try? JSONDecoder().decode(DeviceIdentity.self, from: data) else {
            throw .store(
                .readFailed("the device's keychain item is of another kind. Remove the item.")
            )
        }
        return kept
    }
}

extension URL {
    /// Identifies a folder on this device, even after the app was installed again.
    ///
    /// The system gives the app's containers new names at each installation, so the label is the
    /// path below the last component that is a UUID, or below the user's home folder. It is `nil`
    /// for a temporary folder, which does not outlive the app.
    var folderLabel: String? {
        let path = standardizedFileURL.path(percentEncoded: false)
        let temporary = FileManager.default.temporaryDirectory.standardizedFileURL
            .path(percentEncoded: false)
        guard !path.hasPrefix(temporary) else { return nil }
        let parts = path.split(separator: "/").map(String.init)
        if let container = parts.lastIndex(where: { UUID(uuidString: $0) != nil }) {
            return parts[(container + 1)...].joined(separator: "/")
        }
        let home = NSHomeDirectory().split(separator: "/").map(String.init)
        return parts.starts(with: home)
            ? parts.dropFirst(home.count).joined(separator: "/") : parts.joined(separator: "/")
    }
}
