import Foundation
import SanguineModel

/// A cache entry in its stored form.
struct StoredEntry: Sendable, Hashable {
    /// The query's key.
    var key: String
    /// The time at which the value arrived from its source.
    var asOf: Timestamp
    /// The user's day on which it was requested, if its freshness depends on days.
    var day: LocalDay?
    /// The time at which it expires and may no longer be shown.
    var keptUntil: Timestamp
    /// The version of the value's type.
    var version = 1
    /// Tags and dependencies, as ``StoredEntry/labels(of:)`` writes them.
    var labels = ""
    /// Whether it was invalidated after it arrived.
    var isStale = false
    /// The operations that the value contains and that may still be in the outbox's file.
    ///
    /// Without them, an operation would be shown twice if the process ended before its removal from
    /// the outbox.
    var contained: Set<Int64> = []
    /// The value as JSON.
    var value: Data

    /// The number of bytes that the row counts towards the disk's limit.
    var cost: Int { value.count + key.utf8.count + labels.utf8.count }

    /// The operations in ``contained``, in the row's form.
    var containedList: String { contained.sorted().map(String.init).joined(separator: ",") }

    /// Returns the operations in a row's list.
    static func contained(in list: String) -> Set<Int64> {
        Set(list.split(separator: ",").compactMap { Int64($0) })
    }

    /// Returns tags and dependencies on separate lines, so that a search matches only complete
    /// ones.
    static func labels(of policy: Policy) -> String {
        let labels = policy.tags.map(label(tag:)) + policy.dependencies.map(label(dependency:))
        return labels.isEmpty ? "" : "\n" + labels.joined(separator: "\n") + "\n"
    }

    static func label(tag: String) -> String { "t:" + line(tag) }
    static func label(dependency: String) -> String { "d:" + line(dependency) }

    /// Normalizes the name, so that names that are equal in Swift are equal in SQLite.
    private static func line(_ name: String) -> String {
        name.normalized.replacing("\n", with: " ")
    }
}

/// FNV-1a with 64 bits: detects a damaged row.
///
/// It protects against failing disks, not against attackers.
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
