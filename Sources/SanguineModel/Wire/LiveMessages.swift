/// One change as `GET /v1/live` sends it: the data of an event `change`.
///
/// On the wire the members of ``change``, and `head` beside them.
public struct LiveChange: Hashable, Sendable {
    /// The change; its `through` is always set.
    public var change: RecordChange
    /// The newest number of the account's feed when the change was read.
    ///
    /// As long as it is larger than the change's `through`, more is on its way.
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

    /// Reads both from one object.
    public init(from decoder: any Decoder) throws {
        let head = try decoder.container(keyedBy: CodingKeys.self).decode(Int64.self, forKey: .head)
        self.init(try RecordChange(from: decoder), head: head)
    }

    /// Writes both into one object.
    public func encode(to encoder: any Encoder) throws {
        try change.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(head, forKey: .head)
    }
}
