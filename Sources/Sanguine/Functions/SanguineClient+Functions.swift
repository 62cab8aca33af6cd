public import SanguineModel

extension SanguineClient {
    /// Calls a metered function and returns its output.
    ///
    /// ```swift
    /// let answer = try await client.call(Ask(question: text))
    /// ```
    ///
    /// The balance shows what the call will probably cost as held before this suspends, and what it
    /// did cost when the answer is there. A call that is refused or fails gives its hold back. One
    /// whose answer is lost is sent again with the same key, up to four times, and charged once.
    ///
    /// A balance that seems too low refuses nothing here: a purchase on another device may have
    /// raised it, and only the server knows. It answers with `insufficient_tokens` then.
    ///
    /// Cancelling the calling task ends the waiting and not the call, which is charged for.
    ///
    /// - Throws: ``SanguineError``: a problem with the server's code; ``SanguineError/cancelled``;
    ///   ``SanguineError/outcomeUnknown(operation:)`` if no answer was to be had.
    @discardableResult
    public nonisolated(nonsending) func call<Call: FunctionCall>(
        _ call: Call
    ) async throws(SanguineError) -> Call.Output {
        try await result(of: call).output
    }

    /// Calls a metered function and returns all of its answer, the charge among it.
    ///
    /// Like ``call(_:)``, which returns the output alone.
    ///
    /// - Throws: ``SanguineError``, as ``call(_:)`` does.
    public nonisolated(nonsending) func result<Call: FunctionCall>(
        of call: Call
    ) async throws(SanguineError) -> FunctionResult<Call.Output> {
        try await users.present.functions.begin(call).value()
    }
}
