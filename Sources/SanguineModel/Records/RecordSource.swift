/// Provides the stored records that a ``Records`` transaction reads.
///
/// Reading is synchronous: on the client, the records are available locally; on the server, the
/// transaction runs next to the database.
public protocol RecordSource {
    /// Returns the record, or `nil` if there is none.
    ///
    /// - Throws: An error if the storage failed. The operation is then neither applied nor refused.
    func record(_ key: RecordKey) throws -> SourcedRecord?

    /// Returns the ids of the account's records whose member has the value, in ascending order.
    ///
    /// - Parameters:
    ///   - collection: The collection's name.
    ///   - field: An indexed member.
    ///   - value: The value, which is not an array or object.
    ///   - limit: The maximum number of ids to return, starting with the smallest id.
    /// - Returns: The ids.
    /// - Throws: An error if the storage failed.
    func ids(
        in collection: String,
        where field: String,
        is value: JSONValue,
        limit: Int
    ) throws -> [RecordID]
}

/// A record as read from its source.
public struct SourcedRecord: Sendable {
    /// The record's content.
    public var value: RecordValue
    /// Whether the record belongs to the operation's account, so that the operation may change it.
    public var isOwn: Bool

    /// Creates a record with its ownership.
    public init(_ value: RecordValue, isOwn: Bool = true) {
        self.value = value
        self.isOwn = isOwn
    }
}
