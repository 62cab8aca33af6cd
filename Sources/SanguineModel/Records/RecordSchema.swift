/// The collections and mutators that both ends know.
///
/// ```swift
/// let schema = RecordSchema(
///     collections: [Habit.collection, Log.collection],
///     mutators: [CompleteHabit.self]
/// )
/// ```
///
/// The mutators without code of their own, `record.create`, `record.set`, `record.increment` and
/// `record.delete`, are always among them.
public struct RecordSchema: Sendable {
    private let collections: [String: RecordCollection]
    private let mutators: [String: any Mutator.Type]

    /// Creates a schema.
    ///
    /// Of two collections or mutators of one name the last one counts.
    public init(collections: [RecordCollection] = [], mutators: [any Mutator.Type] = []) {
        self.collections = Dictionary(collections.map { ($0.name, $0) }) { _, last in last }
        let generic: [any Mutator.Type] = [
            CreateRecord.self, SetFields.self, IncrementField.self, DeleteRecord.self,
        ]
        self.mutators = Dictionary((generic + mutators).map { ($0.name, $0) }) { _, last in last }
    }

    /// The collections of `sanguine serve` without a configuration: `notes`, the owner's own, and
    /// `posts`, which everyone may read.
    public static let standard = RecordSchema(collections: [
        RecordCollection("notes"),
        RecordCollection("posts", access: .everyone, indexes: ["createdAt"]),
    ])

    /// The collection of that name, or `nil` if it was not declared.
    public func collection(_ name: String) -> RecordCollection? { collections[name] }

    /// All collections, by name.
    public var allCollections: [RecordCollection] {
        collections.values.sorted { $0.name < $1.name }
    }

    /// The mutator of that name, or `nil` if it was not declared.
    public func mutator(_ name: String) -> (any Mutator.Type)? { mutators[name] }

    /// What is wrong with the declarations, in sentences; empty if nothing is.
    public var faults: [String] { allCollections.compactMap(\.fault) }
}

extension RecordSchema: Hashable {
    /// Whether both have the same collections and mutators.
    public static func == (lhs: RecordSchema, rhs: RecordSchema) -> Bool {
        lhs.collections == rhs.collections && lhs.mutatorTypes == rhs.mutatorTypes
    }

    /// Adds what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(collections)
        hasher.combine(mutatorTypes)
    }

    private var mutatorTypes: [String: ObjectIdentifier] {
        mutators.mapValues { ObjectIdentifier($0) }
    }
}
