public import SanguineModel

extension SanguineClient {
    /// Calls a metered function and returns its output.
    ///
    /// ```swift
    /// let answer = try await client.call(Ask(question: text))
    /// ```
    ///
    /// Before this suspends, the balance shows the predicted cost of the call as held, and once the
    /// answer has arrived, the actual cost. If the call's price names a quota, the quota does the
    /// same; if too little of it is left, the price's `otherwise` applies. A call that is refused
    /// or fails gives both back. If the answer is lost, the call is sent again with the same key,
    /// up to four times, and charged once.
    ///
    /// Without a network, a call is refused at once or waits for one, depending on
    /// `FunctionCall.whenOffline`. A waiting call is stored: it is sent when there is a network,
    /// even by a later process, and listed in ``openCalls`` until the app has received its answer.
    ///
    /// The client does not refuse a call because of a low balance: a purchase on another device may
    /// have raised it, and only the server knows. The server then answers `insufficient_tokens`.
    ///
    /// Cancelling the calling task ends the wait but not the call, which is charged for.
    ///
    /// - Throws: ``SanguineError``: a problem with the server's code; ``SanguineError/cancelled``;
    ///   ``SanguineError/outcomeUnknown(operation:)`` if no answer could be obtained;
    ///   ``SanguineError/transport(_:)`` without a network.
    @discardableResult
    public nonisolated(nonsending) func call<Call: FunctionCall>(
        _ call: Call
    ) async throws(SanguineError) -> Call.Output {
        try await result(of: call).output
    }

    /// Calls a metered function and returns its whole answer, including the charge.
    ///
    /// Like ``call(_:)``, which returns only the output.
    ///
    /// - Throws: ``SanguineError``, as ``call(_:)`` does.
    public nonisolated(nonsending) func result<Call: FunctionCall>(
        of call: Call
    ) async throws(SanguineError) -> FunctionResult<Call.Output> {
        try await users.current.functions.begin(call).value()
    }

    /// Calls a metered function whose answer is read while it is generated.
    ///
    /// ```swift
    /// let stream = try client.stream(Ask(question: text))
    /// for try await part in stream { answer += part }
    /// ```
    ///
    /// The balance shows the hold when this returns. If the function does not stream, or if the
    /// call waited for a network, the text comes in one part.
    ///
    /// - Returns: The answer. If you release it or stop reading, the call continues on its own.
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing has changed.
    public func stream<Call: FunctionCall>(
        _ call: Call
    ) throws(SanguineError) -> FunctionStream<Call.Output> {
        FunctionStream(try users.current.functions.open(call))
    }

    /// Asks for the price of a call, without making it.
    ///
    /// - Returns: The average cost of such calls, and the most that this one can cost.
    /// - Throws: ``SanguineError``: `invalid_content` for an input that the function does not
    ///   accept.
    public nonisolated(nonsending) func quote<Call: FunctionCall>(
        _ call: Call
    ) async throws(SanguineError) -> Quote {
        if let refusal = configuration.refusal { throw refusal }
        let functions = users.current.functions
        functions.allowSignIn()
        return try await functions.call.call(
            "POST",
            "/v1/functions/\(Call.name)/quote",
            json: try FunctionCaller.body(call),
            as: Quote.self
        )
        .value
    }

    /// Predicts the cost of a function's next call from its earlier calls.
    ///
    /// The next call shows this cost as held. It is known only on this device, without a request,
    /// and forgotten at sign-out.
    public func predictedCost<Call: FunctionCall>(of call: Call.Type) -> PredictedCost {
        balance.prediction(of: Call.name, FunctionCaller.terms(call))
    }
}

// MARK: - Found again

extension SanguineClient {
    /// The calls that were begun on this device and whose answers the app has not read, in the
    /// order in which they began.
    ///
    /// This includes calls of earlier processes, for example of one that crashed while an answer
    /// was read. A call is removed when its answer was read to the end, when its failure was
    /// thrown, or when it is old: after at least 48 hours, for which servers keep answers by
    /// default, and weeks later in an app that is rarely used, because the device's clock may be
    /// wrong. At most 1,000; they end with a sign-out. The input is read from disk: see
    /// ``OpenCall/input(of:)``.
    public var openCalls: [OpenCall] { balance.openCalls }

    /// Returns the answer of an earlier call by its key, from this or another device of the user,
    /// and from this or an earlier process.
    ///
    /// Waits for a call that is still running, or that waits for a network. Nothing is charged for
    /// this.
    ///
    /// - Parameters:
    ///   - call: The function that was called, which determines how the output is decoded.
    ///   - key: The key from ``FunctionStream/key`` or ``OpenCall/key``.
    /// - Returns: The whole answer.
    /// - Throws: ``SanguineError``: the problem with which the call failed; `not_found` for a call
    ///   that the server does not know.
    public nonisolated(nonsending) func result<Call: FunctionCall>(
        of call: Call.Type,
        key: String
    ) async throws(SanguineError) -> FunctionResult<Call.Output> {
        let functions = users.current.functions
        let callInProgress = try functions.find(key)
        return try await StartedCall(key: key, callInProgress: callInProgress, caller: functions)
            .value()
    }

    /// Returns the answer of an earlier call by its key, from its first part on; see
    /// ``result(of:key:)``.
    ///
    /// - Throws: ``SanguineError``: the problem with which the call failed, if it is known.
    public func stream<Call: FunctionCall>(
        of call: Call.Type,
        key: String
    ) throws(SanguineError) -> FunctionStream<Call.Output> {
        FunctionStream(try users.current.functions.reopen(key))
    }

    /// Ends a call by its key, and charges for the parts that were generated; see
    /// ``FunctionStream/cancel()``.
    ///
    /// A call that waits for a network is never sent.
    ///
    /// - Returns: The charge, in the balance's unit.
    /// - Throws: ``SanguineError``: `not_found` for a call that the server does not know,
    ///   `operation_in_progress` for one that cannot be stopped.
    @discardableResult
    public nonisolated(nonsending) func cancelCall(
        key: String
    ) async throws(SanguineError) -> Int64 {
        try await users.current.functions.cancel(key)
    }
}
