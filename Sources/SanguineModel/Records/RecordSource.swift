/// Where a ``Records`` transaction reads what it has not written itself.
///
/// Reading is synchronous: on the client records are at hand, on the server the transaction runs
/// where the database is.
public protocol RecordSource {
    /// The record, or `nil` if there is none.
    ///
    /// - Throws: if the storage failed. The operation is then neither done nor refused.
    func record(_ key: RecordKey) throws -> SourcedRecord?

    /// The ids of those of the account's records whose member has the value, in ascending order.
    ///
    /// - Parameters:
    ///   - collection: The collection's name.
    ///   - field: An indexed member.
    ///   - value: Its value; no array or object.
    ///   - limit: How many at most, from the smallest id.
    /// - Returns: The ids.
    /// - Throws: if the storage failed.
    func ids(
        in collection: String,
        where field: String,
        is value: JSONValue,
        limit: Int
    ) throws -> [RecordID]
}

/// A record as its source has it.
public struct SourcedRecord: Sendable {
    /// What it holds.
    public var value: RecordValue
    /// Whether it belongs to the account whose operation reads it, and may be changed by it.
    public var isOwn: Bool

    /// Creates the pair.
    public init(_ value: RecordValue, isOwn: Bool = true) {
        self.value = value
        self.isOwn = isOwn
    }
}
