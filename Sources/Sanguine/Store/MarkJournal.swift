import Foundation
import SanguineModel
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Invalidations that are not yet marked in the store, with a line for each scope.
///
/// A mark in the database costs a flush of the disk, and `invalidate` is called on the main thread.
/// So the mark is first appended to this file, which survives the process and takes a few
/// microseconds; the store is marked later, and the journal is then emptied. A superfluous line
/// makes a value stale that was fetched in the meantime, which costs one fetch.
///
/// Mutable state: `guarded`, protected by its mutex, which is held while a line is written:
/// appending and emptying must reach the file in the same order.
final class MarkJournal: Sendable {
    static let name = "sanguine-stale"

    private struct Guarded {
        /// The number of the newest mark in the file; 0 if the file is empty.
        var newest: UInt64 = 0
        var lines = 0
    }

    private let guarded = Mutex(Guarded())
    private let path: String

    /// Creates the journal of this folder.
    init(folder: URL) { path = folder.appending(path: Self.name).path }

    /// Returns the scopes that an earlier process left.
    ///
    /// A line that is incomplete because the process ended counts as a mark for everything.
    func read() -> [InvalidationMarks.Scope] {
        guard let data = FileManager.default.contents(atPath: path), !data.isEmpty else {
            return []
        }
        let lines = data.split(separator: UInt8(ascii: "\n"))
        guarded.withLock { guarded in
            guarded.newest = max(guarded.newest, 1)
            guarded.lines = lines.count
        }
        return lines.map { line in
            let words = try? JSONDecoder().decode([String].self, from: Data(line))
            return words.flatMap(InvalidationMarks.Scope.init) ?? .everything
        }
    }

    /// Adds a mark.
    ///
    /// The mark survives the process when this returns. Beyond the limit of marks, one for
    /// everything replaces all of them.
    ///
    /// - Throws: The system's error.
    func append(_ scope: InvalidationMarks.Scope, number: UInt64) throws {
        try guarded.withLock { guarded in
            let isFull = guarded.lines >= ClientLimits.invalidationMarks
            let scope = isFull ? InvalidationMarks.Scope.everything : scope
            var line = try JSONEncoder().encode(scope.words)
            line.append(UInt8(ascii: "\n"))
            try write(line, emptying: isFull)
            guarded.lines = isFull ? 1 : guarded.lines + 1
            guarded.newest = max(guarded.newest, number)
        }
    }

    /// Empties the journal, unless it has a newer mark than this one.
    func clear(upTo number: UInt64) {
        guarded.withLock { guarded in
            guard guarded.lines > 0, guarded.newest <= number,
                (try? write(Data(), emptying: true)) != nil
            else { return }
            guarded = Guarded()
        }
    }

    /// Replaces all marks with one for everything, because keys contain the user's parameters.
    func anonymize() {
        guarded.withLock { guarded in
            guard guarded.lines > 0,
                let line = try? JSONEncoder().encode(InvalidationMarks.Scope.everything.words)
            else { return }
            guarded.lines = 1
            try? write(line + [UInt8(ascii: "\n")], emptying: true)
        }
    }

    private func write(_ data: Data, emptying: Bool) throws {
        let flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (emptying ? O_TRUNC : 0)
        let file = open(path, flags, 0o600)
        guard file >= 0 else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
        defer { close(file) }
        let count = data.withUnsafeBytes { writeBytes(file, $0) }
        guard count == data.count else { throw POSIXError(.init(rawValue: errno) ?? .EIO) }
    }
}

extension ClientStore {
    /// Returns the journal of invalidations; `nil` if the store is not on disk.
    func markJournal() -> MarkJournal? {
        place.map { MarkJournal(folder: $0) }
    }
}

// Outside of the type, because its own `write` would hide the system's.
private func writeBytes(_ file: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    bytes.isEmpty ? 0 : write(file, bytes.baseAddress, bytes.count)
}

extension InvalidationMarks.Scope {
    /// The kind and the name, as the journal stores them.
    fileprivate var words: [String] {
        switch self {
        case .key(let key): ["key", key]
        case .prefix(let prefix): ["prefix", prefix]
        case .tag(let tag): ["tag", tag]
        case .dependency(let name): ["dependency", name]
        case .everything: ["everything"]
        }
    }

    fileprivate init?(_ words: [String]) {
        switch (words.first, words.dropFirst().first) {
        case ("key", let key?): self = .key(key)
        case ("prefix", let prefix?): self = .prefix(prefix)
        case ("tag", let tag?): self = .tag(tag)
        case ("dependency", let name?): self = .dependency(name)
        case ("everything", nil): self = .everything
        default: return nil
        }
    }
}
