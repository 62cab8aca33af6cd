/// A note in `GET /v1/live` that lists of a collection have changed: the data of an event `list`.
public struct ChangedList: Hashable, Sendable, Codable {
    /// The collection's name.
    public var collection: String

    /// Creates the event's data.
    public init(collection: String) { self.collection = collection }
}

/// A change in `GET /v1/live`: the data of an event `change`.
///
/// On the wire it consists of the members of ``change``, and `head`.
public struct LiveChange: Hashable, Sendable {
    /// The change; its `through` is always set.
    public var change: RecordChange
    /// The newest number of the account's feed when the change was read.
    ///
    /// If it is larger than the change's `through`, more changes follow.
    public var head: Int64

    /// Creates the event's data.
    public init(_ change: RecordChange, head: Int64) {
        self.change = change
        self.change.through = change.through ?? change.seq
        self.head = head
    }
}

extension LiveChange: Codable {
    private enum CodingKeys: CodingKey {
        case head
    }

    /// Decodes both from one object.
    public init(from decoder: any Decoder) throws {
        let head = try decoder.container(keyedBy: CodingKeys.self).decode(Int64.self, forKey: .head)
        self.init(try RecordChange(from: decoder), head: head)
    }

    /// Encodes both into one object.
    public func encode(to encoder: any Encoder) throws {
        try change.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(head, forKey: .head)
    }
}
