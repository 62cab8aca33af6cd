import Logging
import SanguineModel
import Synchronization

/// Decodes records as the app's types, and tracks those that cannot be decoded.
///
/// These records stay stored, because another version of the app may be able to decode them.
///
/// Invariant: it tracks at most ``RecordLimits/cachedRecords``, all of the current user.
///
/// Mutable state: `known`, protected by its mutex, which is never held while a record is decoded.
final class UnreadableRecords: Sendable {
    private let known = Mutex<[String: Set<RecordID>]>([:])
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    /// The number of undecodable records.
    var count: Int { known.withLock { Self.count($0) } }

    /// Decodes the record.
    ///
    /// - Parameters:
    ///   - value: The stored value.
    ///   - id: The record's id.
    ///   - report: Called with the reason if it cannot be decoded. Default: does nothing.
    /// - Returns: The record, or `nil` if it cannot be decoded.
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
            recordFailure(R.collection.name, [id], replacing: false, error)
            report(.unreadable(R.self, id, error))
            return nil
        }
    }

    /// Decodes all records of a collection, and skips those that cannot be decoded.
    ///
    /// - Parameters:
    ///   - all: The stored values.
    ///   - report: Called with the reason why the first of the others cannot be decoded.
    /// - Returns: The decoded records, in their order.
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
        recordFailure(R.collection.name, unreadable, replacing: true, reason)
        if let reason, let id = unreadable.first { report(.unreadable(R.self, id, reason)) }
        return records
    }

    /// Removes all records, because the user has changed.
    func clear() { known.withLock { $0 = [:] } }

    private func recordFailure(
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
            "Records could not be decoded. They are kept but missing from lists.",
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
