import Foundation

/// The folders of a client, one for each user, and which of them is the present one.
///
///     <folder>/
///       sanguine-client.sqlite    what outlives users
///       sanguine-users.lock       held by whoever changes `present`, or an outbox's log
///       present                   the number of the present folder, 1 without it; and in a second
///                                 line whose it is, if the app has named the user
///       users/1/, users/2/ …      one user's files
///       sanguine-uploads/         forms with files, while they are sent
///
/// A user who leaves gets no folder again: the next one has the next number. Numbers of operations
/// are those of the folder in their upper half, so that no two users have one in common.
struct UserFolders: Sendable {
    /// A user's folder.
    struct Place: Sendable {
        let folders: UserFolders
        let number: Int64

        /// Where it lies.
        var url: URL { folders.users.appending(path: "\(number)") }
        /// What the sequence numbers of its operations are larger than.
        var firstSequence: Int64 { (number - 1) << 32 }
        /// Its outbox.
        var outbox: URL { url.appending(path: OutboxFile.name) }
    }

    private static let presentName = "present"
    private static let lockName = "sanguine-users.lock"
    private let root: URL
    private let activity: ExpiringActivity

    /// The folders in this one.
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

    /// The present user's.
    ///
    /// - Throws: As ``presentUser()`` does.
    func present() throws -> Place { try presentUser().place }

    /// The present user's folder, and whom the app has named.
    ///
    /// - Throws: What the system said, or that the file says nothing: then nobody knows whose the
    ///   folders are, and none of them may be touched.
    func presentUser() throws -> (place: Place, named: Owner?) {
        let text: String
        do {
            text = try String(contentsOf: presentFile, encoding: .utf8)
        } catch CocoaError.fileReadNoSuchFile {
            return (Place(folders: self, number: 1), nil)
        }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let number = lines.first.flatMap { Int64($0.trimmingCharacters(in: .whitespaces)) } ?? 0
        guard number > 0 else { throw CocoaError(.fileReadCorruptFile) }
        let owner = lines.dropFirst().first { !$0.isEmpty }
        return (Place(folders: self, number: number), owner.map { Owner(stored: String($0)) })
    }

    /// Writes whose the present folder is.
    ///
    /// Durable when it returns.
    ///
    /// - Throws: What the system said; then nothing has changed.
    func name(_ owner: Owner, at place: Place) throws { try write(place, owner) }

    private func write(_ place: Place, _ owner: Owner? = nil) throws {
        try SQLiteFile.makePrivateFolder(root)
        let lock = try lock()
        defer { lock?.close() }
        let lines = ["\(place.number)"] + [owner?.text].compactMap(\.self)
        let text = lines.map { $0 + "\n" }.joined()
        try DurableFile.write(Data(text.utf8), to: presentFile)
    }

    private var presentFile: URL { root.appending(path: Self.presentName) }

    /// Whether the folder is the present user's, as far as can be read.
    func isPresent(_ folder: URL) -> Bool { (try? present())?.url.path == folder.path }

    /// The folders of users who have left, in the order in which they came; none if it cannot be
    /// read who is there.
    var left: [Place] {
        guard let present = try? present() else { return [] }
        return numbers.filter { $0 != present.number }.map { Place(folders: self, number: $0) }
    }

    /// The numbers of all folders that are there, in their order.
    private var numbers: [Int64] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: users.path)) ?? []
        return names.compactMap { Int64($0) }.sorted()
    }

    /// A folder that nobody has had.
    func next(after place: Place) -> Place {
        Place(folders: self, number: max(place.number, left.last?.number ?? 0) + 1)
    }

    /// Makes another folder the present one.
    ///
    /// Durable when it returns; companions keep away meanwhile.
    ///
    /// - Throws: What the system said. The folder counts in this process all the same.
    func begin(after place: Place) throws -> Place {
        let next = next(after: place)
        try write(next)
        return next
    }

    /// Removes the files of all users and of the device, and makes another folder the present one.
    ///
    /// All that can be removed is, whatever else fails.
    ///
    /// - Parameter place: The folder of whoever was there; `nil` if that could not be read.
    /// - Returns: The present folder, and what failed.
    func erase(after place: Place?) -> (place: Place, failure: (any Error)?) {
        let last = max((try? present())?.number ?? 0, place?.number ?? 0, numbers.last ?? 0)
        let next = Place(folders: self, number: last + 1)
        func attempt(_ body: () throws -> Void) -> (any Error)? {
            do { try body() } catch { return error }
            return nil
        }
        // First, so that companions write no more; and again if the disk was too full for that.
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

    /// How the names begin of the files that are the device's, or were written by earlier versions.
    private static let ofDevice = [
        StoreFile.name, MarkJournal.name, OutboxFile.name, RecordsFile.name, UploadSpool.name,
        presentName + ".",
    ]

    /// Removes a user's files; all but what waits in the outbox, if that is to stay.
    ///
    /// - Throws: What the system said.
    func remove(_ place: Place, keepingOutbox: Bool = false) throws {
        let manager = FileManager.default
        guard manager.fileExists(atPath: place.url.path) else { return }
        guard keepingOutbox else { return try manager.removeItem(at: place.url) }
        for name in try manager.contentsOfDirectory(atPath: place.url.path)
        where !name.hasPrefix(OutboxFile.name) {
            try manager.removeItem(at: place.url.appending(path: name))
        }
    }

    /// Another process holds a lock, and may be suspended.
    struct IsLocked: Error, CustomStringConvertible {
        let description = """
            another process of the app holds the lock of its files and may be suspended: try again
            """
    }

    /// This process is about to be suspended, and would hold the lock meanwhile.
    struct IsSuspended: Error, CustomStringConvertible {
        let description = """
            the system is about to suspend this process: try again when it runs the next time
            """
    }

    /// Takes the lock that keeps other processes away; `nil` if there can be none.
    ///
    /// The process is not suspended while it has the lock.
    ///
    /// - Throws: ``IsLocked`` if another process holds it for ``ClientLimits/fileLockWait``;
    ///   ``IsSuspended``.
    func lock() throws -> LockFile? {
        guard let lock = try lockFile() else { return nil }
        if lock.lock(within: ClientLimits.fileLockWait) { return lock }
        lock.close()
        throw IsLocked()
    }

    /// Takes that lock unless another process has it, or this one is about to be suspended.
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
    /// Removes what lies in a folder under a name that begins so; all that it can, whatever fails.
    ///
    /// - Throws: What failed first. A folder that is not there is no failure.
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
