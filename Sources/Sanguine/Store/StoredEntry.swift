import Foundation
import SanguineModel

/// A value of the cache as it lies on disk.
struct StoredEntry: Sendable, Hashable {
    /// The query's key.
    var key: String
    /// When it arrived from its source.
    var asOf: Timestamp
    /// The user's day on which it was asked for, if its freshness goes by days.
    var day: LocalDay?
    /// When it may no longer be shown.
    var keptUntil: Timestamp
    /// The version of the value's type.
    var version = 1
    /// Tags and dependencies, as ``StoredEntry/labels(of:)`` writes them.
    var labels = ""
    /// Whether it was invalidated since.
    var isStale = false
    /// The operations that the value contains and that the outbox's file may still have.
    ///
    /// So that an operation is not shown twice if the process dies between the two.
    var contained: Set<Int64> = []
    /// The value in JSON.
    var value: Data

    /// What the row costs of the disk's limit, in bytes.
    var cost: Int { value.count + key.utf8.count + labels.utf8.count }

    /// The operations in ``contained``, as the row has them.
    var containedList: String { contained.sorted().map(String.init).joined(separator: ",") }

    /// The operations that a row names.
    static func contained(in list: String) -> Set<Int64> {
        Set(list.split(separator: ",").compactMap { Int64($0) })
    }

    /// Tags and dependencies on lines of their own, so that a search finds whole ones.
    static func labels(of policy: Policy) -> String {
        let labels = policy.tags.map(label(tag:)) + policy.dependencies.map(label(dependency:))
        return labels.isEmpty ? "" : "\n" + labels.joined(separator: "\n") + "\n"
    }

    static func label(tag: String) -> String { "t:" + line(tag) }
    static func label(dependency: String) -> String { "d:" + line(dependency) }

    /// Equal in SQLite where it is equal in Swift.
    private static func line(_ name: String) -> String {
        name.normalized.replacing("\n", with: " ")
    }
}

/// FNV-1a with 64 bits: notices a damaged row.
///
/// It guards against disks and not against people.
enum RowChecksum {
    static func of(_ name: String, _ data: Data) -> Int64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        data.withUnsafeBytes { bytes in
            for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        }
        return Int64(bitPattern: hash)
    }
}
