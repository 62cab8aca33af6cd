import SanguineModel

extension QueryCache {
    /// Puts a fuller value in the place of the one that is held, without making it newer.
    ///
    /// For a list that grew at its end: its beginning is as old as it was.
    ///
    /// - Parameters:
    ///   - value: The fuller value.
    ///   - query: Whose value it is.
    ///   - epoch: The number of the epoch in which it was fetched.
    ///   - version: The version of the value that it was compared with.
    ///   - size: What the value costs, in bytes of its JSON: asked for a value that is not stored,
    ///     so that it is not encoded for that alone.
    /// - Returns: Whether there was a value of that epoch and version.
    @discardableResult
    func amend<Value>(
        _ value: Value,
        for query: Query<Value>,
        epoch: UInt64,
        replacing version: UInt64,
        size: (@Sendable () -> Int?)? = nil
    ) -> Bool {
        let present = authorizer.epoch
        let isUsers = query.policy.audience == .user
        guard !isUsers || present.number == epoch else { return false }
        let isAmended = change(query) { [writer] record, guarded in
            guard let record = record as? TypedRecord<Value>, let held = record.state.held,
                record.version == version, !isUsers || record.state.epoch == epoch
            else { return nil }
            record.set(value, isEqual: false, version: guarded.nextNumber())
            writer.put(
                EntryWriter.Draft(
                    key: record.key,
                    policy: query.policy,
                    owner: isUsers ? present.owner : "",
                    asOf: held.asOf,
                    day: held.day,
                    epoch: present.number,
                    isStale: held.generation != record.state.generation,
                    size: size
                ) { try? WireCoding.encode(value) }
            )
            return .nothing
        }
        if writer.isBehind { writer.flush() }
        return isAmended
    }
}
