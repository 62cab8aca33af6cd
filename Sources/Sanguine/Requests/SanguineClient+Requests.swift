extension SanguineClient {
    /// The value, fetched first unless it is fresh, before or after what else waits.
    ///
    /// A fetch that is under way is raised, never lowered: if it waits for its turn behind others,
    /// it takes the place that it would have had.
    ///
    /// - Parameters:
    ///   - query: Whose value.
    ///   - priority: How much it matters, in place of the policy's ``Policy/priority``.
    /// - Returns: The value.
    /// - Throws: As ``value(of:)-(ValueQuery<Value>)`` does.
    public func value<Value>(
        of query: ValueQuery<Value>,
        priority: FetchPriority
    ) async throws(SanguineError) -> Value {
        try await queries.value(of: query, priority: priority)
    }

    /// Fetches the value although it may be fresh, before or after what else waits.
    ///
    /// - Parameters:
    ///   - query: Whose value.
    ///   - priority: How much it matters, in place of the policy's ``Policy/priority``.
    /// - Returns: The value.
    /// - Throws: As ``value(of:)-(ValueQuery<Value>)`` does.
    @discardableResult
    public func refresh<Value>(
        _ query: ValueQuery<Value>,
        priority: FetchPriority
    ) async throws(SanguineError) -> Value {
        try await queries.value(of: query, refreshing: true, priority: priority)
    }

    /// Fetches what is likely to be needed soon; returns at once.
    ///
    /// A value that is fresh is not fetched. A prefetch takes few lanes and the last place, and
    /// whoever asks for the same value meanwhile raises it. A failure is not told: the one who
    /// needs the value asks again. It ends with the client, which it does not keep alive.
    public func prefetch<Value>(_ query: ValueQuery<Value>) {
        // Of the client only the part that fetches: its end ends the fetch.
        Task(priority: .utility) { [queries] in
            _ = try? await queries.value(of: query, priority: .prefetch)
        }
    }
}
