public import Foundation

/// What can be seen of a data folder from outside, without opening its database.
public struct SQLiteFolderFacts: Hashable, Sendable {
    /// Who has the folder open.
    public enum Holder: Hashable, Sendable {
        /// Nobody.
        case nobody
        /// A process; `nil` if it left no number.
        case process(Int32?)
    }

    /// The permissions of the folder; `nil` if there is none.
    public var folderMode: Int?
    /// The permissions of the files in it, by their names.
    public var fileModes: [String: Int]
    /// Whether there is a database, with anything in it.
    public var hasDatabase: Bool
    /// Bytes that can still be written; `nil` if the system does not say.
    public var freeBytes: Int64?
    /// Whether the file system is mounted read-only.
    public var isReadOnly: Bool
    /// Who has it open.
    public var holder: Holder

    /// Creates the facts.
    public init(
        folderMode: Int?,
        fileModes: [String: Int],
        hasDatabase: Bool,
        freeBytes: Int64?,
        isReadOnly: Bool,
        holder: Holder
    ) {
        self.folderMode = folderMode
        self.fileModes = fileModes
        self.hasDatabase = hasDatabase
        self.freeBytes = freeBytes
        self.isReadOnly = isReadOnly
        self.holder = holder
    }

    /// Looks at the folder, and changes nothing.
    public init(of folder: URL) {
        let folder = DataFolder(folder)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        let space = folder.space
        folderMode = DataFolder.mode(of: folder.path)
        fileModes = names.reduce(into: [:]) { modes, name in
            modes[name] = DataFolder.mode(of: folder.path + "/" + name)
        }
        hasDatabase =
            DataFolder.size(of: folder.databasePath) > 0 || DataFolder.size(of: folder.walPath) > 0
        freeBytes = space?.freeBytes
        isReadOnly = space?.isReadOnly ?? false
        holder = LockFile.holder(of: folder)
    }
}
