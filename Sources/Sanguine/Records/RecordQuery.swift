public import SanguineModel

/// A value that is made from records: available at once, and computed again when they change.
///
/// ```swift
/// let dueToday = RecordQuery(reading: Habit.collection, Log.collection) { records in
///     let done = Set(records.records(where: Log.byDay, is: today).map(\.habit))
///     return records.records(Habit.self).filter { !done.contains($0.id) }
/// }
///
/// let habits = client.cached(dueToday)
/// ```
///
/// The closure sees one state of the records, and should depend on nothing else: it may be called
/// again if they change in the meantime.
public struct RecordQuery<Value: Sendable & Equatable>: Sendable {
    let collections: Set<String>
    /// The query's identity; `nil` for a closure, because its reads are unknown.
    private(set) var key: QueryKey?
    let read: @Sendable (RecordsReader) -> Value

    /// Declares a query.
    ///
    /// - Parameters:
    ///   - collections: All collections that the closure reads.
    ///   - read: Computes the value. It may be called on any thread.
    public init(
        reading collections: RecordCollection...,
        read: @escaping @Sendable (RecordsReader) -> Value
    ) {
        self.collections = Set(collections.map(\.name))
        self.read = read
    }

    /// Declares a query that is computed again when something with this name changes.
    init(following name: String, read: @escaping @Sendable (RecordsReader) -> Value) {
        collections = [name]
        self.read = read
    }
}

extension RecordQuery {
    /// All records of a type, in the order of their ids.
    public static func all<R: SyncedRecord>(_ type: R.Type = R.self) -> Self where Value == [R] {
        RecordQuery(reading: R.collection) { $0.records(R.self) }.known(R.collection.name)
    }

    /// The records of a type with the greatest ids, in descending order of their ids.
    ///
    /// Only these records are read; see ``RecordsReader/records(_:newest:before:)``.
    public static func newest<R: SyncedRecord>(
        _ count: Int,
        _ type: R.Type = R.self,
        before end: RecordID? = nil
    ) -> Self where Value == [R] {
        RecordQuery(reading: R.collection) { $0.records(R.self, newest: count, before: end) }
            .known(R.collection.name, "newest", "\(count)", end?.description ?? "")
    }

    /// One record.
    public static func record<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> Self
    where Value == R? {
        RecordQuery(reading: R.collection) { $0.record(R.self, id) }
            .known(R.collection.name, id.description)
    }

    /// Returns the query with an identity.
    func known(_ parameters: String...) -> Self {
        var query = self
        query.key = QueryKey(name: "$records", parameters: parameters)
        return query
    }
}
