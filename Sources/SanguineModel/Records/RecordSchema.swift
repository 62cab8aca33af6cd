/// The collections and record mutations that client and server share.
///
/// ```swift
/// let schema = RecordSchema(Habit.self, Log.self, CompleteHabit.self)
/// ```
///
/// The predefined mutations `record.create`, `record.set`, `record.increment` and `record.delete`
/// are always included, as are the threads of an account: ``ChatThread``, ``ChatMessage`` and the
/// mutations `thread.rename`, `thread.set` and `thread.delete`.
public struct RecordSchema: Sendable {
    private var collections: [String: RecordCollection] = [:]
    private var mutations: [String: any RecordMutation.Type] = [:]
    // The type that declared a collection, if any.
    private var owners: [String: any SyncedRecord.Type] = [:]
    private var duplicates: [String] = []

    /// Creates a schema from an app's types: records, which declare their collections, and record
    /// mutations.
    ///
    /// If two different types have the same name, the ``faults`` mention it. They also mention any
    /// other type, such as the client's `RemoteMutation`, which a schema cannot contain.
    public init(_ types: any Registrable.Type...) { self.init(types) }

    /// Creates a schema from a list of types, as ``init(_:)-(Registrable.Type...)`` does.
    public init(_ types: [any Registrable.Type]) {
        self.init(collections: [])
        register(types)
    }

    /// Creates a schema from collections without types, and from mutations.
    ///
    /// If two different collections or mutations have the same name, the ``faults`` mention it. The
    /// collection of a type that is registered later replaces the one declared here.
    public init(collections: [RecordCollection], mutations: [any RecordMutation.Type] = []) {
        for type: any RecordMutation.Type in [
            CreateRecord.self, SetFields.self, IncrementField.self, DeleteRecord.self,
        ] + Self.systemMutations { self.mutations[type.name] = type }
        for type in Self.systemRecords { add(type.collection, of: type) }
        for collection in collections { add(collection) }
        register(mutations)
    }

    /// Adds an app's types, as ``init(_:)`` does.
    public mutating func register(_ types: any Registrable.Type...) { register(types) }

    /// Adds an app's types, as ``init(_:)`` does.
    public mutating func register(_ types: [any Registrable.Type]) {
        for type in types {
            switch type {
            case let record as any SyncedRecord.Type:
                add(record.collection, of: record)
            case let mutation as any RecordMutation.Type:
                if let other = mutations[mutation.name], other != mutation {
                    duplicates.append(
                        Self.duplicate("mutation", mutation.name, other, mutation)
                    )
                }
                mutations[mutation.name] = mutation
            default:
                duplicates.append(
                    "'\(type)' is neither record nor record mutation: remove it from the schema."
                )
            }
        }
    }

    /// Returns the fault of two types with the same name.
    package static func duplicate(
        _ kind: String,
        _ name: String,
        _ first: any Registrable.Type,
        _ second: any Registrable.Type
    ) -> String {
        "'\(first)' and '\(second)' both declare the \(kind) '\(name)': rename one of them."
    }

    /// Adds a collection.
    ///
    /// The same records in two types would lose members that one of them lacks.
    private mutating func add(
        _ collection: RecordCollection,
        of type: (any SyncedRecord.Type)? = nil
    ) {
        let name = collection.name
        if let type, let other = owners[name], other != type {
            duplicates.append(Self.duplicate("collection", name, other, type))
        } else if type == nil, let other = collections[name], other != collection {
            duplicates.append("The collection '\(name)' is declared in two ways: keep one.")
        }
        collections[name] = collection
        owners[name] = type ?? owners[name]
    }

    /// The collections of `sanguine serve` without a configuration: `notes`, which only their owner
    /// may read, and `posts`, which everyone may read.
    public static let standard = RecordSchema(collections: [
        RecordCollection("notes"),
        RecordCollection("posts", access: .everyone, indexes: ["createdAt"]),
    ])

    /// Returns the collection with the name, or `nil` if it is not declared.
    public func collection(_ name: String) -> RecordCollection? {
        // The name is untrusted, and only a short one is cheap to hash.
        name.isMemberName ? collections[name] : nil
    }

    /// Returns the type of the collection's records, or `nil` if it was declared without one.
    func type(of collection: String) -> (any SyncedRecord.Type)? {
        collection.isMemberName ? owners[collection] : nil
    }

    /// All collections, sorted by name, including those of the library, such as `$threads`.
    public var allCollections: [RecordCollection] {
        collections.values.sorted { $0.name < $1.name }
    }

    /// The collections that the app declares, sorted by name.
    public var declaredCollections: [RecordCollection] {
        let system = Self.systemRecords.map { $0.collection }
        return allCollections.filter { !system.contains($0) }
    }

    /// Returns the mutation with the name, or `nil` if it is not declared.
    public func mutation(_ name: String) -> (any RecordMutation.Type)? {
        name.isMemberName ? mutations[name] : nil
    }

    /// Errors in the declarations, as sentences; empty if there are none.
    public var faults: [String] {
        declaredCollections.compactMap(\.fault) + counterFaults + timelineFaults + unsendable
            + duplicates
    }

    private var counterFaults: [String] {
        var targets: Set<[String]> = []
        var faults: [String] = []
        for collection in declaredCollections {
            for counter in collection.counts {
                if self.collection(counter.collection)?.access != .everyone {
                    faults.append(
                        """
                        Declare the collection '\(counter.collection)', which '\(collection.name)' \
                        counts in, and let everyone read it.
                        """
                    )
                }
                if !targets.insert([counter.collection, counter.member]).inserted {
                    faults.append(
                        """
                        Count '\(collection.name)' in another member than \
                        '\(counter.collection).\(counter.member)', which is used twice.
                        """
                    )
                }
            }
        }
        return faults
    }

    /// The members that the server counts in the records of a collection.
    package func counters(of name: String) -> [RecordCounter] {
        collections.values.flatMap { $0.counts.filter { $0.collection == name } }
    }

    private var unsendable: [String] {
        let length = WireLimits.mutatorNameCharacters
        return mutations.keys.sorted().filter { name in
            !length.contains(name.utf8.count)
                || !name.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        }.map { name in
            """
            Name the mutation '\(name.prefix(length.upperBound))' with \(length.lowerBound) to \
            \(length.upperBound) visible ASCII characters.
            """
        }
    }
}

extension RecordSchema: Hashable {
    /// Returns whether both schemas have the same collections, types and faults.
    public static func == (lhs: RecordSchema, rhs: RecordSchema) -> Bool {
        lhs.collections == rhs.collections && lhs.mutationTypes == rhs.mutationTypes
            && lhs.recordTypes == rhs.recordTypes && lhs.duplicates == rhs.duplicates
    }

    /// Hashes a part of the values that ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(collections)
        hasher.combine(mutationTypes)
    }

    private var mutationTypes: [String: ObjectIdentifier] {
        mutations.mapValues { ObjectIdentifier($0) }
    }

    private var recordTypes: [String: ObjectIdentifier] {
        owners.mapValues { ObjectIdentifier($0) }
    }
}
