/// The records as one operation sees them, with what it has changed so far.
///
/// Nothing is stored before the operation is through: whoever runs it takes ``changes`` then, or
/// drops them if it threw. What goes wrong on the way is remembered in ``failure`` and counts like
/// a refusal that was thrown, so that reading needs no `try`.
///
/// Bounded: an operation may read 1,000 records and change 100.
public struct Records {
    /// What the operation knows of itself.
    public let operation: OperationContext
    /// Why the operation cannot be done, the first reason; `nil` if nothing went wrong.
    public private(set) var failure: Refusal?
    /// What the storage threw when it was read; the operation must be tried again then.
    public private(set) var fault: (any Error)?
    /// What was changed: the new value of each record, or `nil` for one that was deleted.
    public private(set) var changes: [RecordKey: RecordValue?] = [:]
    /// The records that the operation looked at or changed.
    public private(set) var touched: Set<RecordKey> = []
    /// The look-ups by index that the operation made.
    public private(set) var lookups: Set<RecordLookup> = []

    let schema: RecordSchema
    private let source: any RecordSource

    /// Begins a transaction.
    ///
    /// - Parameters:
    ///   - source: Where records are read.
    ///   - schema: The collections that there are.
    ///   - operation: Whose transaction it is.
    public init(from source: any RecordSource, schema: RecordSchema, operation: OperationContext) {
        self.source = source
        self.schema = schema
        self.operation = operation
    }

    /// Runs a record mutation.
    ///
    /// - Throws: ``Refusal`` if the operation cannot be done, or what the storage threw.
    public mutating func run(_ mutator: some RecordMutation) throws {
        do {
            try mutator.apply(to: &self)
        } catch {
            if let fault { throw fault }
            if let failure { throw failure }
            throw error as? Refusal
                ?? Refusal(.mutatorFailed, "Mend the mutator: it threw \(error).")
        }
        if let fault { throw fault }
        if let failure { throw failure }
    }

    // MARK: - Records of the app's types

    /// The record, or `nil` if there is none.
    ///
    /// The operation is refused if there is one that cannot be decoded as the type: it never looks
    /// absent. Members that are missing take their defaults, see ``Defaulted``.
    public mutating func get<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        guard let value = value(RecordKey(R.collection.name, id)) else { return nil }
        return decoded(value, id)
    }

    /// Creates the record, or changes the one with its id.
    ///
    /// Of a record that is there only the members change in which the two differ. Members that the
    /// type does not know stay, so an older app does not remove those of a newer one. The operation
    /// is refused if the stored record cannot be decoded as the type.
    public mutating func set<R: SyncedRecord>(_ record: R) {
        let key = RecordKey(R.collection.name, record.id)
        let present = read(key)
        guard mayWrite(key, over: present) else { return }
        guard let stored = present?.value else {
            return note(key, changedTo: RecordValue(record))
        }
        do {
            note(key, changedTo: try RecordValue(record, over: stored))
        } catch {
            unreadable(R.self, record.id, error)
        }
    }

    /// Deletes the record, if there is one.
    public mutating func delete<R: SyncedRecord>(_ type: R.Type, _ id: RecordID) {
        delete(RecordKey(R.collection.name, id))
    }

    /// The records whose member has the value, in the order of their ids.
    ///
    /// All of them: with more than 1,000 the operation cannot be done.
    public mutating func query<R: SyncedRecord, Value: IndexValue>(
        where index: RecordIndex<R, Value>,
        is value: Value
    ) -> [R] {
        keys(in: R.collection.name, where: index.field, is: value.json)
            .compactMap { get(R.self, $0.id) }
    }

    // MARK: - Any records

    /// The record's value, or `nil` if there is none.
    public mutating func value(_ key: RecordKey) -> RecordValue? {
        read(key)?.value
    }

    /// Adds to a number, which counts as its default, or as 0, where the record has none.
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
            // What 38 digits cannot hold, a double adds as it can.
            let sum = DecimalDigits(number).adding(amount).flatMap { JSONValue($0) }
            fields[field] = sum ?? .number(number + Double(amount))
        case .decimal(let number):
            guard let sum = number.digits.adding(amount).flatMap({ JSONValue($0) }) else {
                return fail(.invalidContent, "Keep '\(field)' within 38 digits.")
            }
            fields[field] = sum
        default: return fail(.invalidContent, "Increment a number: '\(field)' is none.")
        }
        put(RecordValue(fields), for: key)
    }

    /// Creates the record, or replaces it.
    ///
    /// The operation is refused if the value is none that JSON can hold: it has a number that is
    /// not finite, or a member with a name over its limit. Members of the stored record that
    /// ``RecordValue/fields()`` do not show stay.
    public mutating func put(_ value: RecordValue, for key: RecordKey) {
        let present = read(key)
        guard mayWrite(key, over: present) else { return }
        do {
            note(key, changedTo: try value.put(over: present?.value))
        } catch {
            failure = failure ?? error as? Refusal ?? .unstorable(key, error)
        }
    }

    /// Deletes the record, if there is one.
    public mutating func delete(_ key: RecordKey) {
        let present = read(key)
        guard mayWrite(key, over: present), present != nil else { return }
        note(key, changedTo: nil)
    }

    /// The names of the records whose member has the value, in the order of their ids.
    ///
    /// All of them: with more than 1,000 the operation cannot be done.
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
            // One more than may be read: a list that is cut short looks like a whole one.
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

    /// Says that the operation cannot be done; the first reason counts.
    public mutating func fail(_ code: ProblemCode, _ detail: String) {
        failure = failure ?? Refusal(code, detail)
    }

    /// The members of a stored record as the migration of the collection's type leaves them.
    ///
    /// What cannot be migrated stays as it is: its members can be set all the same.
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

    // MARK: - What they share

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

    private mutating func mayWrite(_ key: RecordKey, over present: SourcedRecord?) -> Bool {
        guard schema.collection(key.collection) != nil else {
            fail(
                .collectionUnknown,
                "Declare the collection '\(key.collection)' before it is used."
            )
            return false
        }
        if changes[key] == nil, present?.isOwn == false {
            fail(.notOwner, "Change records of your own: another owns '\(key)'.")
            return false
        }
        return true
    }

    private mutating func note(_ key: RecordKey, changedTo value: RecordValue?) {
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

/// A look-up of records by the value of an indexed member.
public struct RecordLookup: Hashable, Sendable {
    /// The collection's name.
    public let collection: String
    /// The indexed member.
    public let field: String
    /// Its value.
    public let value: JSONValue
}
