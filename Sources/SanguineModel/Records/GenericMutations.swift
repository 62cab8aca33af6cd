/// Creates a record (`record.create`).
///
/// It is refused with `record_exists` if a record with the id exists.
public struct CreateRecord: RecordMutation, Hashable {
    /// `record.create`.
    public static let name = "record.create"
    /// The collection's name.
    public let collection: String
    /// The new record's id.
    public let id: RecordID
    /// The members of the record.
    public let fields: RecordFields

    /// Creates the operation.
    public init(_ key: RecordKey, _ fields: RecordFields) {
        collection = key.collection
        id = key.id
        self.fields = fields
    }

    /// Creates the record.
    public func apply(to records: inout Records) throws {
        let key = RecordKey(collection, id)
        guard records.value(key) == nil else {
            throw Refusal(
                .recordExists,
                "Choose another id, or change the existing record with this id."
            )
        }
        var fields = fields
        fields["id"] = nil
        if records.isStamped(collection)
            || records.isIndexed(collection, "createdAt") && fields["createdAt"] == nil
        {
            fields["createdAt"] = records.operation.moment.json
        }
        records.put(RecordValue(fields), for: key)
    }
}

/// Sets members of a record and leaves the others unchanged (`record.set`).
///
/// A member that is set to `null` is removed. An object replaces the whole stored object, unless
/// ``from`` contains its earlier value: then only the differences between the two are applied. The
/// operation is refused with `not_found` if there is no such record, and with `invalid_content` if
/// a stored member has a canonically equivalent name with different bytes. A `createdAt` that the
/// server sets never changes; see ``RecordCollection/init(_:access:indexes:)``.
public struct SetFields: RecordMutation, Hashable {
    /// `record.set`.
    public static let name = "record.set"
    /// The collection's name.
    public let collection: String
    /// The record's id.
    public let id: RecordID
    /// The members to set.
    public let fields: RecordFields
    /// The objects among the members as they were before the change, or `nil` if there are none.
    public let from: RecordFields?

    /// Creates the operation.
    ///
    /// - Parameters:
    ///   - key: The record.
    ///   - fields: The members to set.
    ///   - from: The objects among the members as they were before the change. Only the differences
    ///     are applied to them. Default: `nil`, objects are replaced.
    public init(_ key: RecordKey, _ fields: RecordFields, from: RecordFields? = nil) {
        collection = key.collection
        id = key.id
        self.fields = fields
        self.from = from
    }

    /// Sets the members.
    public func apply(to records: inout Records) throws {
        let key = RecordKey(collection, id)
        guard let value = records.value(key) else { throw Refusal.noRecord(key) }
        let members = try records.migrated(value.fields(), of: collection)
        let isStamped = records.isStamped(collection)
        var (old, new): (RecordFields, RecordFields) = ([:], [:])
        for (name, member) in fields
        where name != "id" && !(isStamped && name == "createdAt") {
            if member == .null {
                old[name] = .null
            } else {
                old[name] = from?[name]
                new[name] = member
            }
        }
        if let twin = members.twin(ofOneIn: new) ?? members.twin(ofOneIn: old) {
            throw Refusal.twin(twin)
        }
        records.put(RecordValue(members.changed(from: old, to: new)), for: key)
    }
}

/// Adds to a number in a record (`record.increment`).
///
/// It is refused with `not_found` if there is no such record.
public struct IncrementField: RecordMutation, Hashable {
    /// `record.increment`.
    public static let name = "record.increment"
    /// The collection's name.
    public let collection: String
    /// The record's id.
    public let id: RecordID
    /// The member.
    ///
    /// A missing member counts as its declared default, or as 0.
    public let field: String
    /// The amount to add; it may be negative.
    public let by: Int64

    /// Creates the operation.
    public init(_ key: RecordKey, _ field: String, by amount: Int64) {
        collection = key.collection
        id = key.id
        self.field = field
        by = amount
    }

    /// Adds to the number.
    public func apply(to records: inout Records) throws {
        guard field != "id" else {
            throw Refusal(.invalidContent, "Name a member other than 'id'.")
        }
        records.increment(RecordKey(collection, id), field, by: by)
    }
}

/// Deletes a record (`record.delete`).
///
/// Deleting a record that does not exist succeeds.
public struct DeleteRecord: RecordMutation, Hashable {
    /// `record.delete`.
    public static let name = "record.delete"
    /// The collection's name.
    public let collection: String
    /// The record's id.
    public let id: RecordID

    /// Creates the operation.
    public init(_ key: RecordKey) {
        collection = key.collection
        id = key.id
    }

    /// Deletes the record.
    public func apply(to records: inout Records) throws {
        records.delete(RecordKey(collection, id))
    }
}

// MARK: - Operations on the app's types

extension CreateRecord {
    /// Creates the operation for a record of one of the app's types.
    ///
    /// - Throws: `EncodingError` if the record cannot be encoded as a JSON object.
    public init<R: SyncedRecord>(_ record: R) throws {
        self.init(RecordKey(R.collection.name, record.id), try RecordValue(record).fields())
    }
}

extension SetFields {
    /// Creates the operation for a record of one of the app's types.
    public init<R: SyncedRecord>(_ type: R.Type, _ id: RecordID, _ fields: RecordFields) {
        self.init(RecordKey(R.collection.name, id), fields)
    }

    /// Creates the operation that sets the members that a closure changes.
    ///
    /// Two devices that change different members of a record therefore keep both changes, also
    /// those inside an object. An array is treated as a single value.
    ///
    /// ```swift
    /// try client.perform(SetFields(habit) { $0.title = "Read" })
    /// ```
    ///
    /// - Parameters:
    ///   - record: The record as it was read.
    ///   - change: Changes the record. A changed id is ignored.
    /// - Throws: The error that `change` threw, or `EncodingError` if the record cannot be encoded
    ///   as a JSON object.
    public init<R: SyncedRecord>(_ record: R, _ change: (inout R) throws -> Void) throws {
        var changed = record
        try change(&changed)
        let (old, new) = (
            try RecordValue(record).fields(), try RecordValue(changed).fields()
        )
        var fields = new.filter { old[$0.key] != $0.value }
        for name in old.keys where new[name] == nil { fields[name] = .null }
        let from = old.filter { name, value in
            if case (.object, .object?) = (value, fields[name]) { true } else { false }
        }
        self.init(
            RecordKey(R.collection.name, record.id),
            fields,
            from: from.isEmpty ? nil : from
        )
    }
}

extension IncrementField {
    /// Creates the operation for a record of one of the app's types.
    public init<R: SyncedRecord>(
        _ type: R.Type,
        _ id: RecordID,
        _ field: String,
        by amount: Int64
    ) {
        self.init(RecordKey(R.collection.name, id), field, by: amount)
    }
}

extension DeleteRecord {
    /// Creates the operation for a record of one of the app's types.
    public init<R: SyncedRecord>(_ type: R.Type, _ id: RecordID) {
        self.init(RecordKey(R.collection.name, id))
    }
}

extension Records {
    func isStamped(_ collection: String) -> Bool {
        schema.collection(collection)?.isStamped ?? false
    }

    func isIndexed(_ collection: String, _ field: String) -> Bool {
        schema.collection(collection)?.indexes.contains(field) ?? false
    }
}

extension Refusal {
    static func noRecord(_ key: RecordKey) -> Refusal {
        Refusal(.notFound, "Create the record '\(key)' before its members are changed.")
    }
}
