import Foundation

/// Registers the client of one folder as another device of another folder's account.
///
/// Both use the same identity, but have separate records, outboxes and sessions.
enum SharedIdentity {
    /// The file of a client's identity in its folder.
    static let file = "device-identity.json"

    /// Copies the identity of a folder into another one, which must have none or the same.
    ///
    /// - Throws: ``Failure`` if there is none, or the other folder has a different one.
    static func copy(from source: URL, to folder: URL) throws {
        let (theirs, ours) = (source.appending(path: file), folder.appending(path: file))
        guard let identity = try? Data(contentsOf: theirs) else {
            throw Failure(
                "The client in '\(source.path)' has no account yet. Run 'note list' there."
            )
        }
        if let stored = try? Data(contentsOf: ours) {
            guard stored == identity else {
                throw Failure("'\(folder.path)' belongs to another account. Name a new folder.")
            }
            return
        }
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        // Copy to a temporary name first, so that the file appears completely or not at all.
        let draft = folder.appending(path: "\(file).\(UUID())")
        try FileManager.default.copyItem(at: theirs, to: draft)
        try FileManager.default.moveItem(at: draft, to: ours)
    }
}
