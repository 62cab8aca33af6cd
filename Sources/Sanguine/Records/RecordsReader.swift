import OrderedCollections
public import SanguineModel
import Synchronization

/// Reads records as they are at one moment: the server's state with the user's own changes.
///
/// All values from one reader are consistent.
public struct RecordsReader {
    let view: RecordsView

    /// Returns the record, or `nil` if there is none, or it cannot be decoded as the type.
    ///
    /// A record that cannot be decoded is kept and counted: see ``StoreReport/unreadableRecords``.
    public func record<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        let key = RecordKey(of: R.self, id)
        return view.value(key)
            .flatMap { view.unreadable.record($0, key.id, report: view.recordFailure) }
    }

    /// Returns all records of the type that can be decoded, in the order of their ids.
    ///
    /// The others are kept and counted: see ``StoreReport/unreadableRecords``.
    public func records<R: SyncedRecord>(_ type: R.Type = R.self) -> [R] {
        view.unreadable.records(view.all(in: R.collection.name), report: view.recordFailure)
    }

    /// Whether all of the user's records are here, as of the last pull.
    ///
    /// `false` until a new device has them: the reader then returns those that are already there,
    /// the newest first.
    public var isComplete: Bool { view.source.isWhole }

    /// Returns a page of the records of the type: those with the greatest ids, in descending order.
    ///
    /// ```swift
    /// let page = reader.records(Message.self, newest: 50)
    /// let earlier = reader.records(Message.self, newest: 50, before: page.last?.id)
    /// ```
    ///
    /// Ids that are made by time, such as those of `Identifier`, sort by it. Only the page is
    /// read, however many records there are.
    ///
    /// - Parameters:
    ///   - type: The type of the records.
    ///   - count: The largest number of records; those that cannot be decoded are left out.
    ///   - end: The id before which the page ends. Default: `nil`, the page of the newest records.
    /// - Returns: The records.
    public func records<R: SyncedRecord>(
        _ type: R.Type = R.self,
        newest count: Int,
        before end: RecordID? = nil
    ) -> [R] {
        view.unreadable.records(
            view.last(max(0, count), in: R.collection.name, before: end),
            report: view.recordFailure
        )
    }

    /// Returns the records whose member has the value, in the order of their ids.
    public func records<R: SyncedRecord, Value: IndexValue>(
        where index: RecordIndex<R, Value>,
        is value: Value
    ) -> [R] {
        view.ids(in: R.collection.name, where: index.field, is: value.json)
            .compactMap { record(R.self, $0) }
    }
}

/// The source of a reader: one user's records as long as nothing changes, or a copy of them.
///
/// The app's code runs between two reads, so no lock can be held. If the records change in between,
/// the read values are discarded and read again.
///
/// Mutable state: `isOvertaken` and the first fault, each protected by its mutex.
final class RecordsView: Sendable {
    typealias Copy = [String: [RecordID: RecordValue]]

    let source: UserRecords
    var unreadable: UnreadableRecords { source.unreadable }
    let readRevision: UInt64
    private let copy: Copy?
    private let overtaken = Mutex(false)
    private let fault = Mutex<Refusal?>(nil)

    init(_ source: UserRecords, revision: UInt64, copy: Copy? = nil) {
        self.source = source
        readRevision = revision
        self.copy = copy
    }

    /// Whether the records have changed, so that the values may be inconsistent.
    var isOvertaken: Bool { overtaken.withLock { $0 } }

    /// Records the reason why a record cannot be decoded.
    func recordFailure(_ refusal: Refusal) { fault.withLock { $0 = $0 ?? refusal } }

    /// Returns the body's value, and the reason why the first undecodable record cannot be decoded.
    func capturingFailure<Value>(_ body: () -> Value) -> (value: Value, fault: Refusal?) {
        fault.withLock { $0 = nil }
        let value = body()
        return (value, fault.withLock { $0 })
    }

    func value(_ key: RecordKey) -> RecordValue? {
        if let copied = copy?[key.collection] { return copied[key.id] }
        return readAtOnce { try $0.value(key) } ?? nil
    }

    func all(in collection: String) -> [(RecordID, RecordValue)] {
        if let copied = copy?[collection] {
            return copied.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        }
        return readAtOnce { try $0.all(in: collection) } ?? []
    }

    func last(
        _ count: Int,
        in collection: String,
        before end: RecordID?
    ) -> [(RecordID, RecordValue)] {
        if let copy {
            let all = (copy[collection] ?? [:]).filter { id, _ in end.map { id < $0 } ?? true }
            return all.sorted { $0.key > $1.key }.prefix(count).map { ($0.key, $0.value) }
        }
        return read { try $0.last(count, in: collection, before: end) } ?? []
    }

    func ids(in collection: String, where field: String, is value: JSONValue) -> [RecordID] {
        if let copied = copy?[collection] {
            return copied.filter { $0.value[field] == value }.keys.sorted()
        }
        return readAtOnce { try $0.ids(in: collection, where: field, is: value) } ?? []
    }

    /// Reads in one step; if there is a copy of other collections, the newest records.
    func readAtOnce<Value>(_ body: (borrowing OutboxContents) throws -> Value) -> Value? {
        copy == nil ? read(body) : source.read(at: nil, body)
    }

    private func read<Value>(_ body: (borrowing OutboxContents) throws -> Value) -> Value? {
        guard !isOvertaken else { return nil }
        guard let value = source.read(at: readRevision, body) else {
            overtaken.withLock { $0 = true }
            return nil
        }
        return value
    }
}

// MARK: - Reading

extension OutboxContents {
    /// The operations that are not shown yet: the withheld ones without an answer, and those that
    /// read or change what such an operation has changed.
    ///
    /// They run like all others, so that an operation may build on one that is not shown.
    private var hidden: Set<Int64> {
        guard !withheld.isEmpty else { return [] }
        let first = state.outbox.items.values.filter { item in
            guard item.kind == .record, let row = rows[item.sequence] else { return false }
            if case .acknowledged = item.phase { return false }
            return withheld.contains(row.name)
        }
        return first.isEmpty ? [] : state.replay.dependents(of: Set(first.map(\.sequence)))
    }

    func value(_ key: RecordKey) throws -> RecordValue? {
        try state.replay.record(key, without: hidden, over: base)?.value
    }

    func ids(in collection: String, where field: String, is value: JSONValue) throws -> [RecordID] {
        let hidden = hidden
        guard hidden.isEmpty else {
            return try all(in: collection).filter { $0.1[field] == value }.map(\.0)
        }
        return try state.replay.ids(
            in: collection,
            where: field,
            is: value,
            limit: .max / 2,
            over: base
        )
    }

    /// Returns the visible values of the records that pending operations have changed.
    func changes(in collection: String) -> [RecordID: RecordValue?] {
        state.replay.changes(in: collection, without: hidden)
    }

    func all(in collection: String) throws -> [(RecordID, RecordValue)] {
        let stored = try base.all(in: collection)
        let changes = changes(in: collection)
        guard !changes.isEmpty else { return stored }
        var all = Dictionary(stored) { first, _ in first }
        for (id, value) in changes { all[id] = value }
        return all.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    func last(
        _ count: Int,
        in collection: String,
        before end: RecordID?
    ) throws -> [(RecordID, RecordValue)] {
        let changes = state.replay.changes(in: collection).filter { id, _ in
            end.map { id < $0 } ?? true
        }
        // Each change hides at most one stored record.
        let stored = try base.last(count + changes.count, in: collection, before: end)
        guard !changes.isEmpty else { return stored }
        var all = Dictionary(stored) { first, _ in first }
        for (id, value) in changes { all[id] = value }
        return all.sorted { $0.key > $1.key }.prefix(count).map { ($0.key, $0.value) }
    }
}

extension UserRecords {
    /// Runs a body that reads from one state of the records.
    func reading<Value>(_ collections: Set<String>, _ body: (RecordsReader) -> Value) -> Value {
        for _ in 0..<RecordLimits.readingTries {
            use()
            let view = RecordsView(self, revision: revision)
            let value = body(RecordsReader(view: view))
            // A companion's files may have changed while it read.
            if environment.isCompanion { refresh() }
            if !view.isOvertaken, !environment.isCompanion || revision == view.readRevision {
                return value
            }
        }
        return body(RecordsReader(view: copy(collections)))
    }

    /// Returns the current value of a record.
    func value(_ key: RecordKey) -> RecordValue? {
        use()
        return read(at: nil) { try $0.value(key) } ?? nil
    }

    /// The revision of the current state.
    private var revision: UInt64 { outbox.read { $0.revision } }

    /// Runs a body that reads; returns `nil` if the revision has changed, or the user has left.
    func read<Value>(
        at revision: UInt64?,
        _ body: (borrowing OutboxContents) throws -> Value
    ) -> Value? {
        let value = outbox.update { contents -> Value? in
            guard revision == nil || revision == contents.revision else { return nil }
            return attempt(&contents) { try body($0) }
        }
        return value ?? nil
    }

    /// Reads the newest records, for work that must not take a failure for missing records.
    ///
    /// - Returns: The body's result; `nil` if there are no records to read: they are not open, are
    ///   being repaired, or their user has left.
    /// - Throws: ``SanguineError/store(_:)`` if they cannot be read. The failure is handled and
    ///   reported like that of any other read.
    func readNewest<Value>(
        _ body: (borrowing OutboxContents) throws -> Value
    ) throws(SanguineError) -> Value? {
        let value = try outbox.update { contents throws(SanguineError) -> Value? in
            guard contents.records != nil, !contents.isRepairing else { return nil }
            do {
                return try body(contents)
            } catch {
                failed(error, &contents)
                throw .store(.readFailed("\(error)"))
            }
        }
        return value ?? nil
    }

    private func copy(_ collections: Set<String>) -> RecordsView {
        let copied = outbox.update { contents in
            var copy: RecordsView.Copy = [:]
            // Messages are not copied: a thread may have any number, and each page is one step.
            for collection in collections where collection != ChatMessage.collection.name {
                let all = attempt(&contents) { try $0.all(in: collection) } ?? []
                copy[collection] = Dictionary(all) { first, _ in first }
            }
            return (copy, contents.revision)
        }
        let (copy, revision) = copied ?? ([:], revision)
        return RecordsView(self, revision: revision, copy: copy)
    }
}
