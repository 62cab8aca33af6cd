import Foundation

/// Makes the client of one folder another device of the account of another folder's client.
///
/// Both prove themselves by the same identity; records, outbox and session are each one's own.
enum SharedIdentity {
    /// Where a client that was given a folder keeps its identity.
    static let file = "device-identity.json"

    /// Copies the identity of a folder into another, which has none yet or the same.
    ///
    /// - Throws: ``Failure`` if there is none, or the other folder has one of its own.
    static func copy(from source: URL, to folder: URL) throws {
        let (theirs, ours) = (source.appending(path: file), folder.appending(path: file))
        guard let identity = try? Data(contentsOf: theirs) else {
            throw Failure(
                "No client has asked a server from '\(source.path)' yet. Run 'note list' there."
            )
        }
        if let present = try? Data(contentsOf: ours) {
            guard present == identity else {
                throw Failure("'\(folder.path)' is a device of another account. Name a new folder.")
            }
            return
        }
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        // Under another name first: the file appears whole or not at all.
        let draft = folder.appending(path: "\(file).\(UUID())")
        try FileManager.default.copyItem(at: theirs, to: draft)
        try FileManager.default.moveItem(at: draft, to: ours)
    }
}
