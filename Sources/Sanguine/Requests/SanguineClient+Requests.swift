extension SanguineClient {
    /// Returns the value, and fetches it with this priority unless it is fresh.
    ///
    /// The priority of a fetch in flight is raised, never lowered: if it is queued, it moves to the
    /// position that it would have had.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - priority: The priority, instead of the policy's ``Policy/priority``.
    /// - Returns: The value.
    /// - Throws: The errors of ``value(of:)-(ValueQuery<Value>)``.
    public func value<Value>(
        of query: ValueQuery<Value>,
        priority: FetchPriority
    ) async throws(SanguineError) -> Value {
        try await queries.value(of: query, priority: priority)
    }

    /// Fetches the value with this priority, even if it is fresh.
    ///
    /// - Parameters:
    ///   - query: The query.
    ///   - priority: The priority, instead of the policy's ``Policy/priority``.
    /// - Returns: The value.
    /// - Throws: The errors of ``value(of:)-(ValueQuery<Value>)``.
    @discardableResult
    public func refresh<Value>(
        _ query: ValueQuery<Value>,
        priority: FetchPriority
    ) async throws(SanguineError) -> Value {
        try await queries.value(of: query, refreshing: true, priority: priority)
    }

    /// Fetches a value that is likely to be needed soon; returns at once.
    ///
    /// A fresh value is not fetched. Prefetches use few slots and come last; another read of the
    /// same value raises the fetch. Failures are not reported: the read that needs the value
    /// fetches it again. The fetch ends with the client, which it does not keep alive.
    public func prefetch<Value>(_ query: ValueQuery<Value>) {
        // Captures only the part of the client that fetches, so that closing the client ends the
        // fetch.
        Task(priority: .utility) { [queries] in
            _ = try? await queries.value(of: query, priority: .prefetch)
        }
    }
}
