public import SanguineModel

/// What a client for previews shows; see ``SanguineClient/preview(_:network:_:)``.
public struct PreviewValues: Sendable {
    let client: SanguineClient

    /// The query has this value.
    public func set<Value>(_ value: Value, for query: ValueQuery<Value>) {
        client.set(value, for: query)
    }

    /// The list has these rows; of two with one id the first counts.
    ///
    /// - Parameters:
    ///   - items: The rows, in their order.
    ///   - list: The list.
    ///   - hasMore: Whether rows follow, which never come. Default: no.
    public func set<Item>(_ items: [Item], for list: ListQuery<Item>, hasMore: Bool = false) {
        var ids: Set<Item.ID> = []
        var contents = PageList<Item>()
        contents.rows = items.filter { ids.insert($0.id).inserted }
        if !contents.rows.isEmpty {
            contents.runs = [PageRun(start: nil, count: contents.rows.count, round: 0)]
        }
        contents.next = hasMore ? "preview" : nil
        client.queries.set(contents, for: client.queries.source(of: list).entry)
    }

    /// The stretch has these values, and none where there is no value for an index.
    ///
    /// What lies outside of the stretch is ignored; what was set before elsewhere stays.
    public func set<Index, Value>(
        _ values: [Index: Value],
        for query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>
    ) {
        guard let positions = Index.positions(range) else { return }
        let queries = client.queries
        let entry = query.entry { _ in throw SanguineError.closed }
        var contents = queries.entries.peek(entry) ?? RangeContents<Value>()
        let now = client.configuration.clock.now()
        contents.coverage.insert(RangeSet(positions), asOf: now)
        for position in positions { contents.values[position] = nil }
        for (index, value) in values where positions.contains(index.position) {
            contents.values[index.position] = value
        }
        contents.revision += 1
        queries.set(contents, for: entry)
    }

    /// The user has this balance.
    public func set(_ balance: Balance) { client.balance.received(balance) }

    /// The user has these quotas.
    public func set(_ quotas: [Quota]) { client.balance.received(quotas) }

    /// The record is there, as one that the user has just made and that waits to be sent.
    ///
    /// Its type must be registered in the configuration that the client is made with.
    ///
    /// - Throws: As ``SanguineClient/perform(_:)-(RecordMutation)`` does.
    public func add(_ record: some SyncedRecord) throws {
        try client.perform(try CreateRecord(record))
    }

    /// The user has done this, and it waits to be sent.
    ///
    /// - Throws: As ``SanguineClient/perform(_:)-(RecordMutation)`` does.
    public func perform(_ mutation: some RecordMutation) throws(SanguineError) {
        try client.perform(mutation)
    }

    /// The user has done this, and it waits to be sent.
    ///
    /// - Throws: As ``SanguineClient/perform(_:)-(RequestMutation)`` does.
    public func perform(_ mutation: some RequestMutation) throws(SanguineError) {
        try client.perform(mutation)
    }
}
