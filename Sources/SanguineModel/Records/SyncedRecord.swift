/// A thing that an app keeps and both ends know: one type for each collection.
///
/// ```swift
/// struct Habit: SyncedRecord {
///     static let collection = RecordCollection("habits")
///     let id: RecordID
///     var title: String
/// }
/// ```
///
/// A record travels as a JSON object, without its id. Members that a type does not know are kept
/// when a mutation sets the record. A type that gets a member later declares what stands in for it
/// in stored records: see ``Defaulted``.
public protocol SyncedRecord: Registrable, Codable, Equatable, Identifiable
where ID == RecordID {
    /// Where records of the type are kept.
    static var collection: RecordCollection { get }
}

/// Records of one kind: who may read them, and by which members they are found.
public struct RecordCollection: Hashable, Sendable {
    /// Who may read the records of a collection; only their owner ever writes them.
    public enum Access: String, Codable, Sendable {
        /// The owner alone.
        case owner
        /// Everyone who is signed in.
        case everyone
    }

    /// The name: a small letter, then at most 63 of `a–z A–Z 0–9 _ -`.
    public let name: String
    /// Who may read.
    public let access: Access
    /// The members by whose values records are found and ordered, at most 8.
    public let indexes: [String]

    /// Declares a collection.
    ///
    /// - Parameters:
    ///   - name: A small letter, then at most 63 of `a–z A–Z 0–9 _ -`.
    ///   - access: Who may read. Default: the owner alone.
    ///   - indexes: The members by whose values records are found and ordered, at most 8. An
    ///     index on `createdAt` has the moment filled in where a new record has none. Where
    ///     everyone may read, the member is the server's: a text in RFC 3339, the moment at which
    ///     the server created the record, whatever the client says. Until then the client shows
    ///     its own moment.
    public init(_ name: String, access: Access = .owner, indexes: [String] = []) {
        self.name = name
        self.access = access
        self.indexes = indexes
    }

    /// Whether the server says when a record was created, so that nobody puts theirs on top of a
    /// list that others read.
    package var isStamped: Bool { access == .everyone && indexes.contains("createdAt") }

    /// What is wrong with the declaration, in a sentence; `nil` if nothing is.
    public var fault: String? {
        guard Self.isValid(name: name) else {
            return "Name the collection '\(name)' with a small letter, then a–z A–Z 0–9 _ - (64)."
        }
        guard indexes.count <= WireLimits.indexesPerCollection, Set(indexes).count == indexes.count
        else {
            return "Give the collection '\(name)' at most 8 indexes, each once."
        }
        return nil
    }

    /// Whether the text may name a collection.
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

/// A member of a record by which it is found.
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

/// A value by which records are found: as it stands in the record's JSON.
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
