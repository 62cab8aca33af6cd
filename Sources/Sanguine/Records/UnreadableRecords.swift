import Logging
import SanguineModel
import Synchronization

/// Reads records as the app's types, and knows which ones could not be read.
///
/// They stay where they are: another version of the app may be able to read them.
///
/// Invariant: it knows at most ``RecordLimits/cachedRecords``, all of the present user.
///
/// Mutable state: `known`, by its mutex, never held over a record's decoding.
final class UnreadableRecords: Sendable {
    private let known = Mutex<[String: Set<RecordID>]>([:])
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    /// How many there are.
    var count: Int { known.withLock { Self.count($0) } }

    /// The record, or `nil` if it cannot be read.
    ///
    /// - Parameters:
    ///   - value: What is stored.
    ///   - id: The record's id.
    ///   - report: Called with the reason if it cannot be read. Default: does nothing.
    /// - Returns: The record, or `nil`.
    func record<R: SyncedRecord>(
        _ value: RecordValue,
        _ id: RecordID,
        report: (Refusal) -> Void = { _ in }
    ) -> R? {
        do {
            let record = try value.record(R.self, id: id)
            known.withLock { _ = $0[R.collection.name]?.remove(id) }
            return record
        } catch {
            note(R.collection.name, [id], replacing: false, error)
            report(.unreadable(R.self, id, error))
            return nil
        }
    }

    /// Those of all records of a collection that can be read.
    ///
    /// - Parameters:
    ///   - all: What is stored.
    ///   - report: Called with the reason why the first of the others cannot be read.
    /// - Returns: The readable records, in their order.
    func records<R: SyncedRecord>(
        _ all: [(RecordID, RecordValue)],
        report: (Refusal) -> Void
    ) -> [R] {
        var records: [R] = []
        records.reserveCapacity(all.count)
        var unreadable: [RecordID] = []
        var reason: (any Error)?
        for (id, value) in all {
            do {
                records.append(try value.record(R.self, id: id))
            } catch {
                unreadable.append(id)
                reason = reason ?? error
            }
        }
        note(R.collection.name, unreadable, replacing: true, reason)
        if let reason, let id = unreadable.first { report(.unreadable(R.self, id, reason)) }
        return records
    }

    /// Forgets all: another user is there.
    func clear() { known.withLock { $0 = [:] } }

    private func note(
        _ collection: String,
        _ ids: [RecordID],
        replacing: Bool,
        _ reason: (any Error)?
    ) {
        let isFirst = known.withLock { known in
            let before = known[collection] ?? []
            if replacing { known[collection] = nil }
            let room = max(0, RecordLimits.cachedRecords - Self.count(known))
            if !ids.isEmpty { known[collection, default: []].formUnion(ids.prefix(room)) }
            return before.isEmpty && !ids.isEmpty
        }
        guard isFirst else { return }
        logger.error(
            "Records cannot be read as their type. They are kept, and are missing in lists.",
            metadata: [
                "collection": "\(collection)", "count": "\(ids.count)",
                "reason": "\(reason?.memberFault ?? "it cannot be decoded")",
            ]
        )
    }

    private static func count(_ known: [String: Set<RecordID>]) -> Int {
        known.values.reduce(0) { $0 + $1.count }
    }
}
