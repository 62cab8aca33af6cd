import Foundation

/// The folders of a client, one for each user, and which of them is the present one.
///
///     <folder>/
///       sanguine-client.sqlite    what outlives users
///       sanguine-users.lock       held by whoever changes `present`, or an outbox's log
///       present                   the number of the present folder; 1 without it
///       users/1/, users/2/ …      one user's files
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

    /// The folders in this one.
    init(_ root: URL) { self.root = root }

    private var users: URL { root.appending(path: "users") }

    /// The present user's.
    ///
    /// - Throws: What the system said, or that the file says nothing: then nobody knows whose the
    ///   folders are, and none of them may be touched.
    func present() throws -> Place {
        let text: String
        do {
            text = try String(contentsOf: presentFile, encoding: .utf8)
        } catch CocoaError.fileReadNoSuchFile {
            return Place(folders: self, number: 1)
        }
        let number = Int64(text.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
        guard number > 0 else { throw CocoaError(.fileReadCorruptFile) }
        return Place(folders: self, number: number)
    }

    private var presentFile: URL { root.appending(path: Self.presentName) }

    /// Whether the folder is the present user's, as far as can be read.
    func isPresent(_ folder: URL) -> Bool { (try? present())?.url.path == folder.path }

    /// The folders of users who have left, in the order in which they came; none if it cannot be
    /// read who is there.
    var left: [Place] {
        guard let present = try? present() else { return [] }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: users.path)) ?? []
        return names.compactMap { Int64($0) }.filter { $0 != present.number }.sorted()
            .map { Place(folders: self, number: $0) }
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
        try SQLiteFile.makePrivateFolder(root)
        let lock = lock()
        defer { lock?.close() }
        try DurableFile.write(Data("\(next.number)\n".utf8), to: presentFile)
        return next
    }

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

    /// Takes the lock that keeps other processes away; waits for whoever has it.
    func lock() -> LockFile? {
        let lock = LockFile(root.appending(path: Self.lockName).path)
        lock?.lock()
        return lock
    }

    /// Takes that lock unless somebody has it.
    func lockIfFree() -> LockFile? {
        guard let lock = LockFile(root.appending(path: Self.lockName).path) else { return nil }
        if lock.tryLock() { return lock }
        lock.close()
        return nil
    }
}
