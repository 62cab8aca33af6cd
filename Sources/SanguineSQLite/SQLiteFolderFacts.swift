public import Foundation

/// The properties of a data folder that can be read without opening its database.
public struct SQLiteFolderFacts: Hashable, Sendable {
    /// The process that has the folder open.
    public enum Holder: Hashable, Sendable {
        /// No process.
        case nobody
        /// A process, by its id, or `nil` if it stored none.
        case process(Int32?)
    }

    /// The permissions of the folder, or `nil` if it does not exist.
    public var folderMode: Int?
    /// The permissions of the files in it, by name.
    public var fileModes: [String: Int]
    /// Whether there is a non-empty database.
    public var hasDatabase: Bool
    /// The number of bytes that can still be written, or `nil` if the system does not report it.
    public var freeBytes: Int64?
    /// Whether the file system is mounted read-only.
    public var isReadOnly: Bool
    /// The process that has the folder open.
    public var holder: Holder

    /// Creates the properties.
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

    /// Reads the properties of a folder, without changing it.
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
