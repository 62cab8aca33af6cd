import Foundation

/// The folders of a client, one for each user, and the number of the current one.
///
///     <folder>/
///       sanguine-client.sqlite    data that outlives users
///       sanguine-users.lock       held while `present` or an outbox's log changes
///       present                   the number of the current folder, 1 if there is no file; and on
///                                 a second line its owner, if the app has named the user
///       users/1/, users/2/ …      one user's files
///       sanguine-images/          images that all users share; private ones are in users/
///       sanguine-uploads/         forms with files, while they are sent
///
/// No folder is used again after its user has left: the next user gets the next number. The
/// folder's number is the upper half of its operations' numbers, so that no two users share one.
struct UserFolders: Sendable {
    /// A user's folder.
    struct Folder: Sendable {
        let folders: UserFolders
        let number: Int64

        /// The folder's URL.
        var url: URL { folders.users.appending(path: "\(number)") }
        /// The sequence numbers of its operations are larger than this one.
        var firstSequence: Int64 { (number - 1) << 32 }
        /// The URL of its outbox.
        var outbox: URL { url.appending(path: OutboxFile.name) }
    }

    private static let currentName = "present"
    private static let lockName = "sanguine-users.lock"
    private let root: URL
    private let activity: ExpiringActivity

    /// Creates the folders below a client's folder.
    ///
    /// - Parameters:
    ///   - root: The folder of the client.
    ///   - activity: Keeps the process from being suspended while it holds the lock. Default: the
    ///     system's.
    init(_ root: URL, activity: ExpiringActivity = .system) {
        self.root = root
        self.activity = activity
    }

    private var users: URL { root.appending(path: "users") }

    /// Returns the current user's folder.
    ///
    /// - Throws: The errors of ``currentUser()``.
    func current() throws -> Folder { try currentUser().folder }

    /// Returns the current user's folder, and its owner if the app has named one.
    ///
    /// - Throws: The system's error, or a corrupt-file error if the file has no number: then the
    ///   owners of the folders are unknown, and no folder may be touched.
    func currentUser() throws -> (folder: Folder, named: AccountKey?) {
        let text: String
        do {
            text = try String(contentsOf: currentFile, encoding: .utf8)
        } catch CocoaError.fileReadNoSuchFile {
            return (Folder(folders: self, number: 1), nil)
        }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let number = lines.first.flatMap { Int64($0.trimmingCharacters(in: .whitespaces)) } ?? 0
        guard number > 0 else { throw CocoaError(.fileReadCorruptFile) }
        let owner = lines.dropFirst().first { !$0.isEmpty }
        return (Folder(folders: self, number: number), owner.map { AccountKey(stored: String($0)) })
    }

    /// Writes the owner of the current folder.
    ///
    /// Durable when it returns.
    ///
    /// - Throws: The system's error; then nothing has changed.
    func name(_ owner: AccountKey, at folder: Folder) throws { try write(folder, owner) }

    private func write(_ folder: Folder, _ owner: AccountKey? = nil) throws {
        try SQLiteFile.makePrivateFolder(root)
        let lock = try lock()
        defer { lock?.close() }
        let lines = ["\(folder.number)"] + [owner?.text].compactMap(\.self)
        let text = lines.map { $0 + "\n" }.joined()
        try DurableFile.write(Data(text.utf8), to: currentFile)
    }

    private var currentFile: URL { root.appending(path: Self.currentName) }

    /// Whether the folder is the current user's; `false` if that cannot be read.
    func isCurrent(_ folder: URL) -> Bool { (try? current())?.url.path == folder.path }

    /// The folders of former users, in the order of their numbers; empty if the current folder
    /// cannot be read.
    var left: [Folder] {
        guard let present = try? current() else { return [] }
        return numbers.filter { $0 != present.number }.map { Folder(folders: self, number: $0) }
    }

    /// The numbers of all existing folders, sorted.
    private var numbers: [Int64] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: users.path)) ?? []
        return names.compactMap { Int64($0) }.sorted()
    }

    /// Returns a folder that no user has had.
    func next(after folder: Folder) -> Folder {
        Folder(folders: self, number: max(folder.number, left.last?.number ?? 0) + 1)
    }

    /// Makes another folder the current one.
    ///
    /// Durable when it returns; companions wait until then.
    ///
    /// - Throws: The system's error. This process uses the folder anyway.
    func begin(after folder: Folder) throws -> Folder {
        let next = next(after: folder)
        try write(next)
        return next
    }

    /// Removes the files of all users and of the device, and makes another folder the current one.
    ///
    /// It removes as much as it can, even if some removals fail.
    ///
    /// - Parameter folder: The folder of the last user; `nil` if it could not be read.
    /// - Returns: The new current folder, and the first failure.
    func erase(after folder: Folder?) -> (folder: Folder, failure: (any Error)?) {
        let last = max((try? current())?.number ?? 0, folder?.number ?? 0, numbers.last ?? 0)
        let next = Folder(folders: self, number: last + 1)
        func attempt(_ body: () throws -> Void) -> (any Error)? {
            do { try body() } catch { return error }
            return nil
        }
        // Done first, so that companions stop writing; and again if the disk was too full for it.
        let isNamed = attempt { try write(next) } == nil
        let failures = [
            attempt { try FileManager.default.removeItems(in: users, withPrefixes: [""]) },
            attempt {
                try FileManager.default.removeItems(in: root, withPrefixes: Self.ofDevice)
            },
            isNamed ? nil : attempt { try write(next) },
        ]
        return (next, failures.compactMap(\.self).first)
    }

    /// Prefixes of the names of the device's files, and of files that earlier versions wrote.
    private static let ofDevice = [
        StoreFile.name, MarkJournal.name, OutboxFile.name, RecordsFile.name, UploadSpool.name,
        ImageDisk.name,
        currentName + ".",
    ]

    /// Removes a user's files; all but the outbox if that is to stay.
    ///
    /// - Throws: The system's error.
    func remove(_ folder: Folder, keepingOutbox: Bool = false) throws {
        let manager = FileManager.default
        guard manager.fileExists(atPath: folder.url.path) else { return }
        guard keepingOutbox else { return try manager.removeItem(at: folder.url) }
        for name in try manager.contentsOfDirectory(atPath: folder.url.path)
        where !name.hasPrefix(OutboxFile.name) {
            try manager.removeItem(at: folder.url.appending(path: name))
        }
    }

    /// Another process holds the lock, and may be suspended.
    struct IsLocked: Error, CustomStringConvertible {
        let description = """
            another process of the app holds the lock of its files and may be suspended: try again
            """
    }

    /// This process is about to be suspended, and must not hold the lock while it is suspended.
    struct IsSuspended: Error, CustomStringConvertible {
        let description = """
            the system is about to suspend this process: try again when it runs again
            """
    }

    /// Takes the lock that excludes other processes; `nil` if no lock file can be made.
    ///
    /// The system does not suspend the process while it holds the lock.
    ///
    /// - Throws: ``IsLocked`` if another process holds it for ``ClientLimits/fileLockWait``;
    ///   ``IsSuspended``.
    func lock() throws -> LockFile? {
        guard let lock = try lockFile() else { return nil }
        if lock.lock(within: ClientLimits.fileLockWait) { return lock }
        lock.close()
        throw IsLocked()
    }

    /// Takes the lock unless another process has it, or this one is about to be suspended.
    func lockIfFree() -> LockFile? {
        guard let lock = try? lockFile() else { return nil }
        if lock.tryLock() { return lock }
        lock.close()
        return nil
    }

    private func lockFile() throws -> LockFile? {
        guard let end = activity.begin() else { throw IsSuspended() }
        let lock = LockFile(root.appending(path: Self.lockName).path, onClose: end)
        if lock == nil { end() }
        return lock
    }
}

extension FileManager {
    /// Removes the items in a folder whose names have one of the prefixes, as many as it can.
    ///
    /// - Throws: The first failure. A missing folder is not a failure.
    func removeItems(in folder: URL, withPrefixes prefixes: [String]) throws {
        guard fileExists(atPath: folder.path) else { return }
        var failure: (any Error)?
        for name in try contentsOfDirectory(atPath: folder.path)
        where prefixes.contains(where: { $0.isEmpty || name.hasPrefix($0) }) {
            do {
                try removeItem(at: folder.appending(path: name))
            } catch CocoaError.fileNoSuchFile {
                continue
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }
}
