/// A member of a record that can be requested without the rest of the record.
///
/// ```swift
/// extension Singer { static let name = RecordField<Singer, String>("name") }
/// ```
public struct RecordField<R: SyncedRecord, Value: Codable & Sendable>: Hashable, Sendable {
    /// The member's name in the record's JSON.
    public let name: String

    /// Declares the member.
    public init(_ name: String) { self.name = name }
}

/// The members of a record that a reader requests instead of the whole record.
///
/// ```swift
/// let card = RecordSelection(Singer.name, Singer.picture)
/// ```
///
/// Selections with the same members are equal, in any order.
public struct RecordSelection<R: SyncedRecord>: Sendable {
    /// The names of the members, sorted, each once.
    public let names: [String]
    private let checks: [String: @Sendable (JSONValue) throws -> Void]

    /// Creates a selection of members.
    public init<each Value>(_ fields: repeat RecordField<R, each Value>) {
        var checks: [String: @Sendable (JSONValue) throws -> Void] = [:]
        repeat Self.add(each fields, to: &checks)
        self.checks = checks
        names = checks.keys.sorted()
    }

    /// The value of the query parameter `fields`: the id and the members.
    ///
    /// A name that a change uses itself, such as `seq`, is qualified.
    package var query: String {
        let reserved = RecordChange.memberNames
        let members = names.map { reserved.contains($0) ? "value.\($0)" : $0 }
        return (["id"] + members).joined(separator: ",")
    }

    /// Checks that the members have the declared types; missing ones and `null` are not checked.
    ///
    /// - Throws: `DecodingError`.
    fileprivate func check(_ members: RecordFields) throws {
        for (name, check) in checks {
            if let value = members[name], value != .null { try check(value) }
        }
    }

    private static func add<Value>(
        _ field: RecordField<R, Value>,
        to checks: inout [String: @Sendable (JSONValue) throws -> Void]
    ) {
        checks[field.name] = { _ = try $0.decoded(as: Value.self) }
    }
}

extension RecordSelection: Hashable {
    /// Returns whether both select the same members.
    public static func == (lhs: Self, rhs: Self) -> Bool { lhs.names == rhs.names }

    /// Hashes the names of the members.
    public func hash(into hasher: inout Hasher) { hasher.combine(names) }
}

/// The requested members of a record.
///
/// It is a type of its own, so that a part of a record is never used, cached or written as the
/// whole record.
///
/// ```swift
/// let singer = try await client.value(of: .published(Singer.self, id, only: card))
/// let name = singer[Singer.name]
/// ```
public struct PartialRecord<R: SyncedRecord>: Hashable, Sendable, Identifiable {
    /// The record's id.
    public let id: RecordID
    /// The requested members that the record has.
    public let members: RecordFields

    /// Creates a part of a record.
    ///
    /// - Parameters:
    ///   - id: The record's id.
    ///   - members: The record's members, of which others than the selected ones are ignored.
    ///   - selection: The selected members.
    /// - Throws: `DecodingError` if a member does not have the declared type.
    public init(
        id: RecordID,
        _ members: RecordFields,
        selecting selection: RecordSelection<R>
    ) throws {
        let selected = members.filter { selection.names.contains($0.key) }
        try selection.check(selected)
        self.id = id
        self.members = selected
    }

    /// The value of a member; `nil` if the record lacks it or it was not selected.
    public subscript<Value>(_ field: RecordField<R, Value>) -> Value? {
        guard let value = members[field.name], value != .null else { return nil }
        return try? value.decoded(as: Value.self)
    }
}

extension PartialRecord: Codable {
    private enum CodingKeys: CodingKey {
        case id, members
    }
}
