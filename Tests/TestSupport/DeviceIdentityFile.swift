package import Foundation

/// The file in a client's folder that identifies the device to the server.
package struct DeviceIdentityFile: Sendable {
    package let url: URL

    /// Creates a reference to the file of a client's folder, which may be missing.
    package init(in folder: URL) { url = folder.appending(path: "device-identity.json") }

    /// Returns the id by which support finds the device's account.
    package var deviceID: String {
        get throws {
            struct Identity: Decodable { let deviceId: String }
            return try JSONDecoder().decode(Identity.self, from: Data(contentsOf: url)).deviceId
        }
    }

    /// Copies the identity to another device, as a synchronized keychain does.
    ///
    /// A device that has an identity keeps it.
    ///
    /// - Throws: An error of the file system, also if this device has no identity yet.
    package func copy(to folder: URL) throws {
        let (copy, files) = (DeviceIdentityFile(in: folder).url, FileManager.default)
        guard !files.fileExists(atPath: copy.path) else { return }
        try files.createDirectory(at: folder, withIntermediateDirectories: true)
        try files.copyItem(at: url, to: copy)
    }

    package var exists: Bool { FileManager.default.fileExists(atPath: url.path) }
}
