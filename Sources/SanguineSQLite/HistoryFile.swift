import Foundation
import SanguineModel

/// Distinguishes a continued database from an older copy that replaced it.
///
/// The file `sanguine.history` contains the epoch of the adjacent database, the identity of the
/// database file, and, after a clean close, the times of the file's last changes. If they differ
/// when the database is opened, a new epoch is assigned.
///
/// Two properties cannot be copied. The file's birth time distinguishes a new file from the old one
/// even with the same inode, which file systems reuse. The inode's change time reveals a copy that
/// was written into the old file together with its times (`cp -p`). A program that changes owner or
/// permissions changes that time too. The new epoch then makes each device read its data once from
/// the start, and loses nothing.
///
/// After a crash the times of changes are not known, and only the file and the epoch are compared.
/// A snapshot of the whole disk shows no difference: it needs
/// ``SQLiteStorage/assignNewEpoch(at:)``.
struct HistoryFile: Equatable {
    /// The times of the database file's last changes, in nanoseconds since 1970.
    struct Changes: Equatable {
        var content: Int64
        var inode: Int64
    }

    var epoch: Epoch
    var inode: UInt64
    /// The creation time of the file, in nanoseconds since 1970; 0 if the file system does not
    /// report it.
    var madeAt: Int64
    /// The last changes, or `nil` while the database is open.
    var changes: Changes?

    /// Describes the current database file, or returns `nil` if there is none.
    init?(of folder: DataFolder, epoch: Epoch, isClosed: Bool) {
        guard let facts = SystemCall.facts(of: folder.databasePath) else { return nil }
        self.epoch = epoch
        inode = facts.inode
        madeAt = facts.madeAt
        changes = isClosed ? Changes(content: facts.writtenAt, inode: facts.changedAt) : nil
    }

    /// Reads the description that the last process stored, or returns `nil` if there is none.
    init?(readFrom folder: DataFolder) {
        guard let handle = FileHandle(forReadingAtPath: folder.historyPath) else { return nil }
        defer { try? handle.close() }
        guard let bytes = try? handle.read(upToCount: 256) else { return nil }
        let words =
            String(decoding: bytes, as: UTF8.self).split(separator: "\n")
            .first?.split(separator: " ") ?? []
        guard words.count >= 4, let epoch = Epoch(words[0]), let inode = UInt64(words[1]),
            let madeAt = Int64(words[2])
        else { return nil }
        self.epoch = epoch
        self.inode = inode
        self.madeAt = madeAt
        if words.count == 4, words[3] == "open" { return }
        guard words.count == 5, let content = Int64(words[3]), let changed = Int64(words[4]) else {
            return nil
        }
        changes = Changes(content: content, inode: changed)
    }

    /// The line in the file.
    private var text: String {
        let state = changes.map { "\($0.content) \($0.inode)" } ?? "open"
        return "\(epoch) \(inode) \(madeAt) \(state)\n"
    }

    /// Returns how the database file differs from the described one, or `nil` if it does not.
    ///
    /// Call it before the file or its permissions are changed.
    func difference(in folder: DataFolder) -> String? {
        guard let now = HistoryFile(of: folder, epoch: epoch, isClosed: changes != nil) else {
            return "it was removed"
        }
        if now == self { return nil }
        guard now.inode == inode, now.madeAt == madeAt else { return "it is another file" }
        guard now.changes?.content == changes?.content else { return "it was modified" }
        return "its owner, its permissions or its times were changed"
    }

    /// Stores the description.
    ///
    /// If this fails, the database is treated as a copy when it is opened next. Its clients then
    /// read their data from the start, and nothing is lost.
    func write(to folder: DataFolder) throws(ChunkedReader.Failure) {
        let path = folder.historyPath
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw ChunkedReader.Failure(path) }
        defer { Foundation.close(file) }
        let text = Array(text.utf8)
        guard pwrite(file, text, text.count, 0) == text.count,
            ftruncate(file, off_t(text.count)) == 0, fsync(file) == 0
        else { throw ChunkedReader.Failure(path) }
    }
}
