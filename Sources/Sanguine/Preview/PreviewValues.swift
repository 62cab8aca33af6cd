public import SanguineModel

/// Sets the values of a preview client; see ``SanguineClient/preview(_:network:_:)``.
public struct PreviewValues: Sendable {
    let client: SanguineClient

    /// Sets the value of a query.
    public func set<Value>(_ value: Value, for query: ValueQuery<Value>) {
        client.set(value, for: query)
    }

    /// Sets the rows of a list; of two rows with the same id, the first one counts.
    ///
    /// - Parameters:
    ///   - items: The rows, in order.
    ///   - list: The list.
    ///   - hasMore: Whether further rows exist, which never arrive. Default: no.
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

    /// Sets the values of a range; an index without a value has none.
    ///
    /// Values outside of the range are ignored; values that were set elsewhere stay.
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

    /// Sets the user's balance.
    public func set(_ balance: Balance) { client.balance.received(balance) }

    /// Sets the user's quotas.
    public func set(_ quotas: [Quota]) { client.balance.received(quotas) }

    /// Adds a record that the user has just created, and that waits to be sent.
    ///
    /// Its type must be registered in the configuration of the client.
    ///
    /// - Throws: The errors of ``SanguineClient/perform(_:)-(RecordMutation)``.
    public func add(_ record: some SyncedRecord) throws {
        try client.perform(try CreateRecord(record))
    }

    /// Performs a mutation, which then waits to be sent.
    ///
    /// - Throws: The errors of ``SanguineClient/perform(_:)-(RecordMutation)``.
    public func perform(_ mutation: some RecordMutation) throws(SanguineError) {
        try client.perform(mutation)
    }

    /// Performs a mutation, which then waits to be sent.
    ///
    /// - Throws: The errors of ``SanguineClient/perform(_:)-(RemoteMutation)``.
    public func perform(_ mutation: some RemoteMutation) throws(SanguineError) {
        try client.perform(mutation)
    }
}
