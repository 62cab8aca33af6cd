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
        /// The owner, and the accounts that a member of the record names.
        case readers
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
    ///
    /// While a collection has records, it can change between `everyone` and `readers` only: a
    /// server does not find records of `owner` with another access, or the reverse, and refuses to
    /// start.
    public let access: Access
    /// The members by whose values records can be looked up and ordered, at most 8.
    public let indexes: [String]
    /// The members that name uploaded files, at most 8.
    public let blobs: [BlobField]
    /// The record that remains when a guest is merged.
    public let onMerge: MergeRule
    /// The member that the server sets to the id of the owner's account; `nil` for none.
    public let owner: String?
    /// The member that names the accounts that may read a record, besides its owner; `nil` for
    /// none.
    public let readers: String?
    /// Groups of members whose values occur together in one record only.
    public let unique: [[String]]
    /// The members by whose beginning records can be found.
    public let search: [String]
    /// The members of other records that count the records of this collection.
    public let counts: [RecordCounter]
    /// The lists of the newest records of the authors that an account follows.
    public let timelines: [RecordTimeline]

    /// Declares a collection.
    ///
    /// - Parameters:
    ///   - name: A lowercase letter, then at most 63 of `a–z A–Z 0–9 _ -`.
    ///   - access: The accounts that may read the records. Default: only the owner.
    ///   - indexes: The members by whose values records can be looked up and ordered, at most 8.
    ///     With an index on `createdAt`, the moment is added to new records that lack it. If
    ///     other accounts may read the records, the server sets this member to the moment at which
    ///     it created the record, as text in RFC 3339, and ignores the client's value. Until then
    ///     the client shows its own moment.
    ///   - blobs: The members that name uploaded files, at most 8: an account that may read a
    ///     record may read these files. Default: none.
    ///   - owner: The member that the server always sets to the id of the owner's account, so that
    ///     other readers can rely on it. Default: none.
    ///   - readers: The member that names the accounts that may read a record, for the access
    ///     ``Access/readers``: an account's id, or a list of at most
    ///     ``WireLimits/readersPerRecord``. Such a collection needs an owner's member and an index
    ///     on `createdAt`, and the ids of its records are UUIDs. Default: none.
    ///   - unique: Groups of members whose values occur together in one record only, such as the
    ///     post and the author of a like; an operation that would repeat them is refused with
    ///     `record_exists`. Records that lack one of the members are not compared. Default: none.
    ///   - search: The members by whose beginning records can be found, regardless of case and
    ///     accents. Default: none.
    ///   - counts: The members of other records that count the records of this collection, changed
    ///     in the same commit. Default: none.
    ///   - timelines: The lists of the newest records of the authors that an account follows, of a
    ///     collection that everyone may read and that has an index on `createdAt`. Default: none.
    ///   - rule: The record that remains when a guest is merged into an account that has a record
    ///     with the same id. Default: the newer one.
    public init(
        _ name: String,
        access: Access = .owner,
        indexes: [String] = [],
        blobs: [BlobField] = [],
        owner: String? = nil,
        readers: String? = nil,
        unique: [[String]] = [],
        search: [String] = [],
        counts: [RecordCounter] = [],
        timelines: [RecordTimeline] = [],
        onMerge rule: MergeRule = .newer
    ) {
        self.name = name
        self.access = access
        self.indexes = indexes
        self.blobs = blobs
        self.owner = owner
        self.readers = readers
        self.unique = unique
        self.search = search
        self.counts = counts
        self.timelines = timelines
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
        (owner, readers) = (nil, nil)
        (unique, search, counts, timelines) = ([], [], [], [])
    }

    /// Whether the name is reserved for collections of the library.
    package static func isSystem(name: String) -> Bool { name.utf8.first == UInt8(ascii: "$") }

    /// Whether the server sets the creation time of records, so that a client cannot put its
    /// records on top of a list that others read.
    package var isStamped: Bool { access != .owner && indexes.contains("createdAt") }

    /// The error in the declaration, in a sentence, or `nil` if there is none.
    public var fault: String? {
        guard Self.isValid(name: name) else {
            return "Name the collection '\(name)' with 1 to 64 of a–z A–Z 0–9 _ -, first a–z."
        }
        guard indexes.count <= WireLimits.indexesPerCollection, Set(indexes).count == indexes.count
        else {
            return "Give the collection '\(name)' at most 8 indexes, each once."
        }
        return blobFault ?? relationFault
    }

    /// The error in the declaration of members that name files, if there is one.
    private var blobFault: String? {
        let names = blobs.map(\.name)
        guard names.count <= WireLimits.indexesPerCollection, Set(names).count == names.count,
            names.allSatisfy({ Self.isPlain(member: $0) })
        else {
            return """
                Give the collection '\(name)' at most 8 members that name files, each once, with 1 \
                to 64 of a–z A–Z 0–9 _ -.
                """
        }
        guard access == .everyone || !blobs.contains(where: \.isPublic) else {
            return """
                Let everyone read the collection '\(name)', or declare no public files in it: a \
                record that only its owner reads cannot make a file public.
                """
        }
        guard !names.contains(where: { $0 == owner || (isStamped && $0 == "createdAt") }) else {
            return """
                Declare no files in the members of the collection '\(name)' that the server sets: \
                'createdAt' and the owner.
                """
        }
        return nil
    }

    /// The error in the declaration of what relates records, if there is one.
    private var relationFault: String? {
        let limit = WireLimits.indexesPerCollection
        let members = search + unique.flatMap(\.self) + [owner].compactMap(\.self)
        guard members.allSatisfy({ Self.isPlain(member: $0) }),
            indexes.allSatisfy({ !$0.contains("~") })
        else {
            return "Name the members of the collection '\(name)' with 1 to 64 of a–z A–Z 0–9 _ -."
        }
        guard search.count + unique.count <= limit, Set(search).count == search.count,
            Set(unique).count == unique.count
        else {
            return
                "Give the collection '\(name)' at most 8 searches and unique groups, each once."
        }
        guard unique.allSatisfy({ !$0.isEmpty && $0.count <= 4 && Set($0).count == $0.count })
        else {
            return "Give each unique group of the collection '\(name)' 1 to 4 members, each once."
        }
        guard counts.count <= limit, Set(counts).count == counts.count,
            counts.allSatisfy({ $0.by != owner && $0.isPlain })
        else {
            return "Give the collection '\(name)' at most 8 counts, each by a member with an id."
        }
        return timelineFault ?? readersFault
    }

    /// The error in the declaration of readers, if there is one.
    private var readersFault: String? {
        guard access == .readers else {
            guard readers != nil else { return nil }
            return "Give the collection '\(name)' the access 'readers', or no such member."
        }
        guard let readers, let owner, isStamped, readers != owner, readers != "createdAt",
            Self.isPlain(member: readers), !blobs.contains(where: { $0.name == readers })
        else {
            return """
                Give the collection '\(name)' a member that names the readers, another one for the \
                owner, and an index on 'createdAt'.
                """
        }
        guard search.isEmpty, counts.isEmpty else {
            return """
                Declare no searches and counts in the collection '\(name)': they would show others \
                what only its readers may know.
                """
        }
        return nil
    }

    /// The error in the declaration of timelines, if there is one.
    private var timelineFault: String? {
        guard timelines.count <= WireLimits.indexesPerCollection,
            Set(timelines.map(\.name)).count == timelines.count,
            timelines.allSatisfy(\.isPlain)
        else {
            return """
                Give the collection '\(name)' at most 8 timelines, each with its own name of 1 \
                to 64 of a–z A–Z 0–9 _ -.
                """
        }
        guard timelines.isEmpty || (access == .everyone && isStamped) else {
            return """
                Let everyone read the collection '\(name)', with an index on 'createdAt', or \
                declare no timeline of it.
                """
        }
        guard timelines.allSatisfy({ !$0.includesOwn || $0.by == owner }) else {
            return """
                Let timelines of the collection '\(name)' that include the reader's own records \
                be by its 'owner'.
                """
        }
        return nil
    }

    /// Whether a name of a member has only characters that need no escaping.
    static func isPlain(member name: String) -> Bool {
        (1...WireLimits.collectionNameCharacters).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
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

/// A member of a record that counts the records of another collection which refer to it.
///
/// ```swift
/// static let collection = RecordCollection(
///     "likes",
///     access: .everyone,
///     indexes: ["song"],
///     owner: "account",
///     unique: [["song", "account"]],
///     counts: [RecordCounter(by: "song", in: "songs", as: "likes")]
/// )
/// ```
///
/// The server adds the member to records in lists and lookups, over any member of that name. It is
/// not a part of the owner's synchronized record, which does not change when others like it.
public struct RecordCounter: Hashable, Sendable {
    /// The member with the id of the counted record's target.
    public let by: String
    /// The collection of the target, which everyone may read.
    public let collection: String
    /// The member of the target that has the number.
    public let member: String

    /// Declares a counter.
    ///
    /// - Parameters:
    ///   - by: The member with the id of the target.
    ///   - collection: The collection of the target, which everyone may read.
    ///   - member: The member of the target that has the number.
    public init(by: String, in collection: String, as member: String) {
        self.by = by
        self.collection = collection
        self.member = member
    }

    fileprivate var isPlain: Bool {
        RecordCollection.isPlain(member: by) && RecordCollection.isPlain(member: member)
            && RecordCollection.isValid(name: collection)
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
