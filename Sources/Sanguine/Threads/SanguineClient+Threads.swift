public import SanguineModel

extension SanguineClient {
    /// The user's threads.
    public var threads: Threads { Threads(users: users) }

    // MARK: - Calls in threads

    /// Calls a metered function in a thread and returns its output.
    ///
    /// ```swift
    /// let thread = RecordID.new()
    /// let answer = try await client.call(Chat(question: "When does Venus rise?"), in: thread)
    /// ```
    ///
    /// Before this suspends, the thread contains the question, and an answer that is being made; so
    /// it does while the call waits for a network. The server stores both in the commit that
    /// charges the call. A call that is refused leaves no message. The function must keep history.
    /// The call is removed from ``openCalls`` when the thread contains its answer.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - thread: The id of the thread, a UUID. The first call begins the thread: create its id
    ///     with `RecordID.new()`.
    /// - Returns: The output.
    /// - Throws: ``SanguineError``, as ``call(_:)`` does: `invalid_content` if the function keeps no
    ///   history, `not_found` for a thread that was deleted, `storage_full` beyond its limit.
    @discardableResult
    public nonisolated(nonsending) func call<Call: FunctionCall>(
        _ call: Call,
        in thread: RecordID
    ) async throws(SanguineError) -> Call.Output {
        try await result(of: call, in: thread).output
    }

    /// Calls a metered function in a thread and returns its whole answer; see ``call(_:in:)``.
    ///
    /// - Throws: ``SanguineError``, as ``call(_:in:)`` does.
    public nonisolated(nonsending) func result<Call: FunctionCall>(
        of call: Call,
        in thread: RecordID
    ) async throws(SanguineError) -> FunctionResult<Call.Output> {
        try await users.current.functions.begin(call, in: thread).value()
    }

    /// Calls a metered function in a thread, whose answer is read while it is generated.
    ///
    /// See ``stream(_:)`` for reading, and ``call(_:in:)`` for the thread. ``ThreadModel/ask(_:)``
    /// shows the answer in the thread as it grows.
    ///
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing has changed.
    public func stream<Call: FunctionCall>(
        _ call: Call,
        in thread: RecordID
    ) throws(SanguineError) -> FunctionStream<Call.Output> {
        FunctionStream(try users.current.functions.open(call, in: thread))
    }
}
