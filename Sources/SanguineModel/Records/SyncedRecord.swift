/// A record of an app that is synchronized with the server; one type for each collection.
///
/// ```swift
/// struct Habit: SyncedRecord {
///     static let collection = RecordCollection("habits")
///     let id: RecordID
///     var title: String
/// }
/// ```
///
/// A record is sent as a JSON object without its id. Members that a type does not know are kept
/// when a mutation sets the record. When a type gets a new member, it declares a default for stored
/// records: see ``Defaulted``.
public protocol SyncedRecord: Registrable, Codable, Equatable, Identifiable
where ID == RecordID {
    /// The collection of the type's records.
    static var collection: RecordCollection { get }
}

/// A kind of records, with its readers and its indexes.
public struct RecordCollection: Hashable, Sendable {
    /// Determines who may read the records of a collection.
    ///
    /// Only their owner may write them.
    public enum Access: String, Codable, Sendable {
        /// Only the owner.
        case owner
        /// All signed-in users.
        case everyone
    }

    /// Determines which record remains if a guest is merged into an account that has a record with
    /// the same id.
    ///
    /// A deletion counts as the account's record, and a guest's deletion never deletes a record of
    /// the account.
    public enum MergeRule: String, Codable, Sendable, CaseIterable {
        /// The record that was changed last; of two that were changed at the same time, the
        /// account's.
        case newer
        /// The account's record.
        case account
        /// The guest's record.
        case guest
    }

    /// The name: a lowercase letter, then at most 63 of `a–z A–Z 0–9 _ -`.
    public let name: String
    /// The accounts that may read the records.
    public let access: Access
    /// The members by whose values records can be looked up and ordered, at most 8.
    public let indexes: [String]
    /// The members that name uploaded files, at most 8.
    public let blobs: [BlobField]
    /// The record that remains when a guest is merged.
    public let onMerge: MergeRule

    /// Declares a collection.
    ///
    /// - Parameters:
    ///   - name: A lowercase letter, then at most 63 of `a–z A–Z 0–9 _ -`.
    ///   - access: The accounts that may read the records. Default: only the owner.
    ///   - indexes: The members by whose values records can be looked up and ordered, at most 8.
    ///     With an index on `createdAt`, the moment is added to new records that lack it. If
    ///     everyone may read the records, the server sets this member to the moment at which it
    ///     created the record, as text in RFC 3339, and ignores the client's value. Until then the
    ///     client shows its own moment.
    ///   - blobs: The members that name uploaded files, at most 8: an account that may read a
    ///     record may read these files. Default: none.
    ///   - rule: The record that remains when a guest is merged into an account that has a record
    ///     with the same id. Default: the newer one.
    public init(
        _ name: String,
        access: Access = .owner,
        indexes: [String] = [],
        blobs: [BlobField] = [],
        onMerge rule: MergeRule = .newer
    ) {
        self.name = name
        self.access = access
        self.indexes = indexes
        self.blobs = blobs
        onMerge = rule
    }

    /// Declares a collection of the library, whose name begins with `$`.
    ///
    /// Only mutations of the library and the server itself change its records.
    init(system name: String, indexes: [String], blobs: [BlobField] = []) {
        self.name = name
        access = .owner
        self.indexes = indexes
        self.blobs = blobs
        onMerge = .newer
    }

    /// Whether the name is reserved for collections of the library.
    package static func isSystem(name: String) -> Bool { name.utf8.first == UInt8(ascii: "$") }

    /// Whether the server sets the creation time of records, so that a client cannot put its
    /// records on top of a list that others read.
    package var isStamped: Bool { access == .everyone && indexes.contains("createdAt") }

    /// The error in the declaration, in a sentence, or `nil` if there is none.
    public var fault: String? {
        guard Self.isValid(name: name) else {
            return "Name the collection '\(name)' with 1 to 64 of a–z A–Z 0–9 _ -, first a–z."
        }
        guard indexes.count <= WireLimits.indexesPerCollection, Set(indexes).count == indexes.count
        else {
            return "Give the collection '\(name)' at most 8 indexes, each once."
        }
        guard blobs.count <= WireLimits.indexesPerCollection,
            Set(blobs.map(\.name)).count == blobs.count, blobs.allSatisfy({ !$0.name.isEmpty })
        else {
            return "Give the collection '\(name)' at most 8 members that name files, each once."
        }
        guard access == .everyone || !blobs.contains(where: \.isPublic) else {
            return """
                Let everyone read the collection '\(name)', or declare no public files in it: a \
                record that only its owner reads cannot make a file public.
                """
        }
        return nil
    }

    /// Returns whether the text is a valid name of a collection.
    public static func isValid(name: String) -> Bool {
        guard let first = name.utf8.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(first)
        else { return false }
        return name.utf8.count <= WireLimits.collectionNameCharacters
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}

/// A member by which records can be looked up.
///
/// ```swift
/// extension Log { static let byDay = RecordIndex<Log, CalendarDay>("day") }
/// let logs = records.query(where: Log.byDay, is: day)
/// ```
public struct RecordIndex<R: SyncedRecord, Value: IndexValue>: Hashable, Sendable {
    /// The member's name; the collection must list it among its indexes.
    public let field: String

    /// Declares the index.
    public init(_ field: String) { self.field = field }
}

/// A value by which records can be looked up, in the form of the record's JSON.
public protocol IndexValue: Hashable, Sendable {
    /// The value in JSON.
    var json: JSONValue { get }
}

extension String: IndexValue {
    /// A string.
    public var json: JSONValue { .string(self) }
}

extension Int: IndexValue {
    /// A number.
    public var json: JSONValue { .integer(Int64(self)) }
}

extension Bool: IndexValue {
    /// `true` or `false`.
    public var json: JSONValue { .bool(self) }
}

extension RecordID: IndexValue {
    /// The text.
    public var json: JSONValue { .string(text) }
}

extension CalendarDay: IndexValue {
    /// The text.
    public var json: JSONValue { .string(description) }
}

extension Timestamp: IndexValue {
    /// The text.
    public var json: JSONValue { .string(description) }
}
