/// The records as one operation sees them, including its own changes.
///
/// Nothing is stored while the operation runs: its caller stores ``changes`` afterwards, or
/// discards them if it threw. Errors are recorded in ``failure`` and treated like a thrown refusal,
/// so that reading needs no `try`.
///
/// An operation may read at most 1,000 records and change at most 100.
public struct Records {
    /// The properties of the operation.
    public let operation: OperationContext
    /// The first reason why the operation cannot be applied, or `nil` if there is none.
    public private(set) var failure: Refusal?
    /// The error that the storage threw while reading.
    ///
    /// The operation must then be retried.
    public private(set) var fault: (any Error)?
    /// The changes: the new value of each changed record, or `nil` for a deleted one.
    public private(set) var changes: [RecordKey: RecordValue?] = [:]
    /// The records that the operation read or changed.
    public private(set) var touched: Set<RecordKey> = []
    /// The index lookups that the operation made.
    public private(set) var lookups: Set<RecordLookup> = []

    let schema: RecordSchema
    private let source: any RecordSource
    /// Whether the running mutation may change system collections.
    private var mayChangeSystem = false

    /// Begins a transaction.
    ///
    /// - Parameters:
    ///   - source: The storage that records are read from.
    ///   - schema: The declared collections.
    ///   - operation: The properties of the operation.
    public init(from source: any RecordSource, schema: RecordSchema, operation: OperationContext) {
        self.source = source
        self.schema = schema
        self.operation = operation
    }

    /// Runs a record mutation.
    ///
    /// - Throws: ``Refusal`` if the operation cannot be applied, or the error that the storage
    ///   threw.
    public mutating func run(_ mutation: some RecordMutation) throws {
        mayChangeSystem = mutation is any SystemMutation
        defer { mayChangeSystem = false }
        do {
            try mutation.apply(to: &self)
        } catch {
            if let fault { throw fault }
            if let failure { throw failure }
            throw error as? Refusal
                ?? Refusal(.mutatorFailed, "Fix the mutation: it threw \(error).")
        }
        if let fault { throw fault }
        if let failure { throw failure }
    }

    // MARK: - Records of the app's types

    /// Returns the record, or `nil` if there is none.
    ///
    /// The operation is refused if the stored record cannot be decoded as the type, so that it
    /// never appears to be absent. Missing members take their defaults, see ``Defaulted``.
    public mutating func get<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        guard let value = value(RecordKey(R.collection.name, id)) else { return nil }
        return decoded(value, id)
    }

    /// Creates the record, or changes the one with its id.
    ///
    /// Only members in which the record differs from the stored one are changed. Members that the
    /// type does not know are kept, so an older app does not remove those of a newer one. The
    /// operation is refused if the stored record cannot be decoded as the type.
    public mutating func set<R: SyncedRecord>(_ record: R) {
        let key = RecordKey(R.collection.name, record.id)
        let current = read(key)
        guard mayWrite(key, over: current) else { return }
        guard let stored = current?.value else {
            return recordChange(key, changedTo: RecordValue(record))
        }
        do {
            recordChange(key, changedTo: try RecordValue(record, over: stored))
        } catch {
            unreadable(R.self, record.id, error)
        }
    }

    /// Deletes the record, if it exists.
    public mutating func delete<R: SyncedRecord>(_ type: R.Type, _ id: RecordID) {
        delete(RecordKey(R.collection.name, id))
    }

    /// Returns all records whose member has the value, ordered by their ids.
    ///
    /// The operation cannot be applied if there are more than 1,000.
    public mutating func query<R: SyncedRecord, Value: IndexValue>(
        where index: RecordIndex<R, Value>,
        is value: Value
    ) -> [R] {
        keys(in: R.collection.name, where: index.field, is: value.json)
            .compactMap { get(R.self, $0.id) }
    }

    // MARK: - Any records

    /// Returns the record's value, or `nil` if there is none.
    public mutating func value(_ key: RecordKey) -> RecordValue? {
        read(key)?.value
    }

    /// Adds to a number.
    ///
    /// A missing number counts as its default, or as 0.
    ///
    /// The default is the one that the collection's type declares, see ``Defaulted``.
    public mutating func increment(_ key: RecordKey, _ field: String, by amount: Int64) {
        guard let value = value(key) else {
            return fail(.notFound, "Create the record '\(key)' before its members are changed.")
        }
        var fields: RecordFields
        do {
            fields = try migrated(value.fields(), of: key.collection)
        } catch {
            failure = failure ?? error as? Refusal ?? .unstorable(key, error)
            return
        }
        guard field.isMemberName else {
            return fail(.invalidContent, "Name a member of the record '\(key)'.")
        }
        if let twin = fields.twin(of: field) {
            let refusal = Refusal.twin(twin)
            return fail(refusal.code, refusal.detail)
        }
        if fields[field] ?? .null == .null {
            fields[field] = defaultNumber(of: field, in: key.collection)
        }
        switch fields[field] ?? .null {
        case .null: fields[field] = .integer(amount)
        case .integer(let number):
            let (sum, overflow) = number.addingReportingOverflow(amount)
            guard !overflow else {
                return fail(.invalidContent, "Keep '\(field)' within 64 bits.")
            }
            fields[field] = .integer(sum)
        case .number(let number):
            // A number that 38 digits cannot hold is added as a double.
            let sum = DecimalDigits(number).adding(amount).flatMap { JSONValue($0) }
            fields[field] = sum ?? .number(number + Double(amount))
        case .decimal(let number):
            guard let sum = number.digits.adding(amount).flatMap({ JSONValue($0) }) else {
                return fail(.invalidContent, "Keep '\(field)' within 38 digits.")
            }
            fields[field] = sum
        default: return fail(.invalidContent, "Increment a number: '\(field)' is not one.")
        }
        put(RecordValue(fields), for: key)
    }

    /// Creates the record, or replaces it.
    ///
    /// The operation is refused if JSON cannot represent the value, because it has a number that is
    /// not finite, or a member whose name exceeds the limit. Members of the stored record that
    /// ``RecordValue/fields()`` does not return are kept.
    public mutating func put(_ value: RecordValue, for key: RecordKey) {
        let current = read(key)
        guard mayWrite(key, over: current) else { return }
        do {
            recordChange(key, changedTo: try value.put(over: current?.value))
        } catch {
            failure = failure ?? error as? Refusal ?? .unstorable(key, error)
        }
    }

    /// Deletes the record, if it exists.
    public mutating func delete(_ key: RecordKey) {
        let current = read(key)
        guard mayWrite(key, over: current), current != nil else { return }
        recordChange(key, changedTo: nil)
    }

    /// Returns the keys of all records whose member has the value, ordered by their ids.
    ///
    /// The operation cannot be applied if there are more than 1,000.
    public mutating func keys(
        in collection: String,
        where field: String,
        is value: JSONValue
    ) -> [RecordKey] {
        guard let declared = schema.collection(collection) else {
            fail(.collectionUnknown, "Declare the collection '\(collection)' before it is used.")
            return []
        }
        guard declared.indexes.contains(where: { $0.hasBytes(of: field) }) else {
            fail(.invalidContent, "Declare '\(field)' as an index of '\(collection)'.")
            return []
        }
        lookups.insert(RecordLookup(collection: collection, field: field, value: value))
        var ids: Set<RecordID> = []
        do {
            // One more than the limit, to detect a truncated list.
            let limit = WireLimits.recordsReadPerOperation + 1
            let found = try source.ids(in: collection, where: field, is: value, limit: limit)
            guard found.count < limit else { return tooMany(collection, field) }
            ids = Set(found)
        } catch {
            fault = fault ?? error
        }
        for (key, change) in changes where key.collection == collection {
            if let change, change[field] == value { ids.insert(key.id) } else { ids.remove(key.id) }
        }
        guard ids.count <= WireLimits.recordsReadPerOperation else {
            return tooMany(collection, field)
        }
        return ids.sorted().map { RecordKey(collection, $0) }
    }

    /// Records that the operation cannot be applied, unless it has already failed.
    public mutating func fail(_ code: ProblemCode, _ detail: String) {
        failure = failure ?? Refusal(code, detail)
    }

    /// Returns the members of a stored record after the migration of the collection's type.
    ///
    /// Members that cannot be migrated are returned unchanged, and can still be set.
    func migrated(_ fields: RecordFields, of collection: String) -> RecordFields {
        guard let type = schema.type(of: collection),
            let migrated = try? StoredForm.migrated(fields, for: type)
        else { return fields }
        return migrated
    }

    private func defaultNumber(of field: String, in collection: String) -> JSONValue? {
        guard let type = schema.type(of: collection),
            let value = try? StoredForm.records.defaults(of: type)?[field]
        else { return nil }
        return value.digits == nil ? nil : value
    }

    // MARK: - Shared operations

    private mutating func tooMany(_ collection: String, _ field: String) -> [RecordKey] {
        fail(
            .invalidContent,
            """
            Look up at most 1,000 records in one operation: more of '\(collection)' have this \
            value of '\(field)'.
            """
        )
        return []
    }

    private mutating func read(_ key: RecordKey) -> SourcedRecord? {
        if let change = changes[key] { return change.map { SourcedRecord($0) } }
        touched.insert(key)
        guard touched.count <= WireLimits.recordsReadPerOperation else {
            fail(.invalidContent, "Read at most 1,000 records in one operation.")
            return nil
        }
        do {
            return try source.record(key)
        } catch {
            fault = fault ?? error
            return nil
        }
    }

    private mutating func mayWrite(_ key: RecordKey, over current: SourcedRecord?) -> Bool {
        guard schema.collection(key.collection) != nil else {
            fail(
                .collectionUnknown,
                "Declare the collection '\(key.collection)' before it is used."
            )
            return false
        }
        guard mayChangeSystem || !RecordCollection.isSystem(name: key.collection) else {
            fail(
                .invalidContent,
                """
                Change '\(key.collection)' by calls and by 'thread.rename', 'thread.set' and \
                'thread.delete' only.
                """
            )
            return false
        }
        if changes[key] == nil, current?.isOwn == false {
            fail(.notOwner, "Change only your own records: '\(key)' has another owner.")
            return false
        }
        return true
    }

    private mutating func recordChange(_ key: RecordKey, changedTo value: RecordValue?) {
        changes.updateValue(value, forKey: key)
        if changes.count > WireLimits.recordsChangedPerOperation {
            fail(.invalidContent, "Change at most 100 records in one operation.")
        }
    }

    private mutating func decoded<R: SyncedRecord>(_ value: RecordValue, _ id: RecordID) -> R? {
        do {
            return try value.record(R.self, id: id)
        } catch {
            unreadable(R.self, id, error)
            return nil
        }
    }

    private mutating func unreadable<R: SyncedRecord>(
        _ type: R.Type,
        _ id: RecordID,
        _ error: any Error
    ) {
        failure = failure ?? .unreadable(type, id, error)
    }
}

/// A lookup of records by the value of an indexed member.
public struct RecordLookup: Hashable, Sendable {
    /// The collection's name.
    public let collection: String
    /// The indexed member.
    public let field: String
    /// The value.
    public let value: JSONValue
}
