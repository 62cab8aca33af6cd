public import SanguineModel

extension SanguineClient {
    /// Calls a metered function and returns its output.
    ///
    /// ```swift
    /// let answer = try await client.call(Ask(question: text))
    /// ```
    ///
    /// The balance shows what the call will probably cost as held before this suspends, and what it
    /// did cost when the answer is there. So does the quota of which the call takes some, if its
    /// price names one; with too little of that left, what the price says `otherwise`. A call that
    /// is refused or fails gives both back. One whose answer is lost is sent again with the same
    /// key, up to four times, and charged once.
    ///
    /// Without a network a call is refused at once, or waits for one, as
    /// `FunctionCall.whenOffline` says. One that waits is stored: it is sent when there is a
    /// network, also by a later process, and listed in ``openCalls`` until its answer was given.
    ///
    /// A balance that seems too low refuses nothing here: a purchase on another device may have
    /// raised it, and only the server knows. It answers with `insufficient_tokens` then.
    ///
    /// Cancelling the calling task ends the waiting and not the call, which is charged for.
    ///
    /// - Throws: ``SanguineError``: a problem with the server's code; ``SanguineError/cancelled``;
    ///   ``SanguineError/outcomeUnknown(operation:)`` if no answer was to be had;
    ///   ``SanguineError/transport(_:)`` without a network.
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

    /// Calls a metered function whose answer is read while it is made.
    ///
    /// ```swift
    /// let stream = try client.stream(Ask(question: text))
    /// for try await part in stream { answer += part }
    /// ```
    ///
    /// The balance shows the hold when this returns. A function that does not stream, and a call
    /// that waited for a network, give their text in one part.
    ///
    /// - Returns: The answer; let go of it, or stop reading, to leave the call to itself.
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing was changed.
    public func stream<Call: FunctionCall>(
        _ call: Call
    ) throws(SanguineError) -> FunctionStream<Call.Output> {
        FunctionStream(try users.present.functions.open(call))
    }

    /// Asks what a call would cost, and makes it not.
    ///
    /// - Returns: What such calls cost on average, and the most that this one can cost.
    /// - Throws: ``SanguineError``: `invalid_content` for an input that the function does not take.
    public nonisolated(nonsending) func quote<Call: FunctionCall>(
        _ call: Call
    ) async throws(SanguineError) -> Quote {
        if let refusal = configuration.refusal { throw refusal }
        let functions = users.present.functions
        functions.allowSignIn()
        return try await functions.call.call(
            "POST",
            "/v1/functions/\(Call.name)/quote",
            json: try FunctionCaller.body(call),
            as: Quote.self
        )
        .value
    }

    /// What a call of a function will probably cost, by what its calls have cost before.
    ///
    /// It is what the next call shows as held. Known on this device alone, without a request; it
    /// ends with a sign-out.
    public func predictedCost<Call: FunctionCall>(of call: Call.Type) -> PredictedCost {
        balance.prediction(of: Call.name, FunctionCaller.terms(call))
    }
}

// MARK: - Found again

extension SanguineClient {
    /// The calls that were begun on this device and whose answers the app has not read, in the
    /// order in which they began.
    ///
    /// Those of an earlier process, too: of one that was killed while an answer was read, say. A
    /// call leaves the list when its answer was read to the end or its failure was thrown, and when
    /// it is old: not before 48 hours, for which servers keep answers, and weeks later in an app
    /// that is seldom used, because the device's clock may be wrong. At most 1,000; they end with a
    /// sign-out. The input is read from disk: see ``OpenCall/input(of:)``.
    public var openCalls: [OpenCall] { balance.openCalls }

    /// The answer of a call that was made before, by its key: on this device or another one of the
    /// user, by this process or an earlier one.
    ///
    /// Waits for a call that still runs, or that waits for a network. Nothing is charged for.
    ///
    /// - Parameters:
    ///   - call: What was called: it says how the output is read.
    ///   - key: The key of ``FunctionStream/key`` or ``OpenCall/key``.
    /// - Returns: The whole answer.
    /// - Throws: ``SanguineError``: the problem with which the call failed; `not_found` for a call
    ///   that the server does not know.
    public nonisolated(nonsending) func result<Call: FunctionCall>(
        of call: Call.Type,
        key: String
    ) async throws(SanguineError) -> FunctionResult<Call.Output> {
        let functions = users.present.functions
        let flight = try functions.find(key)
        return try await BegunCall(key: key, flight: flight, caller: functions).value()
    }

    /// The answer of a call that was made before, by its key, from its first part on; see
    /// ``result(of:key:)``.
    ///
    /// - Throws: ``SanguineError``: the problem with which the call failed, if that is known.
    public func stream<Call: FunctionCall>(
        of call: Call.Type,
        key: String
    ) throws(SanguineError) -> FunctionStream<Call.Output> {
        FunctionStream(try users.present.functions.reopen(key))
    }

    /// Ends a call by its key, and charges for what was made; see ``FunctionStream/cancel()``.
    ///
    /// One that waits for a network is never sent.
    ///
    /// - Returns: What the call was charged, in the balance's unit.
    /// - Throws: ``SanguineError``: `not_found` for a call that the server does not know,
    ///   `operation_in_progress` for one that cannot be stopped.
    @discardableResult
    public nonisolated(nonsending) func cancelCall(
        key: String
    ) async throws(SanguineError) -> Int64 {
        try await users.present.functions.cancel(key)
    }
}
