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
    /// - Parameters:
    ///   - call: The call.
    ///   - thread: The thread in which it would be made; its last messages are a part of the price
    ///     of a call that is charged by usage. Default: none.
    /// - Returns: The average cost of such calls, and the most that this one can cost.
    /// - Throws: ``SanguineError``: `invalid_content` for an input that the function does not
    ///   accept, or a thread if it keeps no history.
    public nonisolated(nonsending) func quote<Call: FunctionCall>(
        _ call: Call,
        in thread: RecordID? = nil
    ) async throws(SanguineError) -> Quote {
        if let refusal = configuration.refusal { throw refusal }
        let functions = users.current.functions
        functions.allowSignIn()
        return try await functions.call.call(
            "POST",
            "/v1/functions/\(Call.name)/quote",
            json: try FunctionCaller.body(call, in: thread),
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

// MARK: - For views

extension SanguineClient {
    /// Calls a metered function, with its answer as an observable object for a view.
    ///
    /// - Returns: A new object for each call.
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing has changed.
    @MainActor
    public func answer<Call: FunctionCall>(
        to call: Call
    ) throws(SanguineError) -> AnswerModel<Call.Output> {
        AnswerModel(try stream(call), services.mainActorBatch)
    }

    /// Returns the answer of an earlier call as an observable object for a view; see
    /// ``stream(of:key:)``.
    ///
    /// - Throws: ``SanguineError``: the problem with which the call failed, if it is known.
    @MainActor
    public func answer<Call: FunctionCall>(
        to call: Call.Type,
        key: String
    ) throws(SanguineError) -> AnswerModel<Call.Output> {
        AnswerModel(try stream(of: call, key: key), services.mainActorBatch)
    }
}

// MARK: - Files

extension SanguineClient {
    /// Stores a file in the user's account, to be attached to a call.
    ///
    /// ```swift
    /// let photo = try await client.upload(.file(url, type: "image/jpeg"))
    /// let question = Describe.Input(question: "What is this?")
    /// let answer = try await client.call(Describe(input: question, attachments: [photo.id]))
    /// ```
    ///
    /// The id is derived from the content: sending the same file again stores and costs nothing
    /// more, so a failed upload is repeated, up to four times. The server determines the type from
    /// the content, and removes data that shows where a picture was taken.
    ///
    /// A file of more than ``ClientLimits/resumableUploadBytes`` is sent in parts. After a lost
    /// connection the upload continues from the last byte that the server has stored. Also after a
    /// cancellation, or a restart of the app or the server, calling this again with the same
    /// content within a day continues the upload.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file, of at most 25 MiB unless the server sets another limit; no form.
    ///   - progress: Called with the progress, at most once for each hundredth, on any thread; a
    ///     repeated upload starts again at zero, a resumed one at its last byte. Default: no
    ///     callback.
    /// - Returns: The id for `FunctionCall.attachments`, with size and type.
    /// - Throws: ``SanguineError``: a problem with `unsupported_media_type`, `body_too_large` or
    ///   another code of the server; ``SanguineError/cancelled``;
    ///   ``SanguineError/invalidDeclaration(_:)`` for a form.
    public nonisolated(nonsending) func upload(
        _ file: RequestBody,
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> BlobFacts {
        if let refusal = configuration.refusal { throw refusal }
        if case .parts = file.content {
            throw .invalidDeclaration("Upload bytes or a file, not a form.")
        }
        return try await users.current.functions.upload(
            file,
            UploadReport(tell: progress ?? { _ in })
        )
    }

    /// Stores a file for a call of a function, unless that call would be refused.
    ///
    /// ```swift
    /// let photo = try await client.upload(.file(url, type: "image/jpeg"), for: Describe.self)
    /// ```
    ///
    /// Before any byte of the file is sent, the client fetches the function's rules, the quotas and
    /// the balance from the server. It refuses a file that is one too many, too large, or declared
    /// as another type, and a file for a call that the user cannot pay. If answers of the function
    /// are cached, the call may cost nothing, and only the function's rules are checked.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file, as for ``upload(_:progress:)``.
    ///   - call: The function to be called.
    ///   - others: Files that are already attached to the call. Default: none.
    ///   - progress: As for ``upload(_:progress:)``.
    /// - Returns: The id for `FunctionCall.attachments`, with size and type.
    /// - Throws: ``SanguineError``: in this order `not_found`, `invalid_content`,
    ///   `quota_exhausted`, `insufficient_tokens`, and the errors of ``upload(_:progress:)``.
    public nonisolated(nonsending) func upload<Call: FunctionCall>(
        _ file: RequestBody,
        for call: Call.Type,
        besides others: [BlobFacts] = [],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> BlobFacts {
        if let refusal = configuration.refusal { throw refusal }
        let functions = users.current.functions
        functions.allowSignIn()
        let list = try await functions.call.call(
            "GET",
            "/v1/functions",
            as: Items<FunctionDescription>.self
        ).value
        guard let function = list.items.first(where: { $0.name == Call.name }) else {
            throw .problem(Problem(.notFound, "Use a name that GET /v1/functions lists."))
        }
        let check = UploadCheck(function: function)
        try check.check(type: file.type, bytes: file.knownBytes, besides: others)
        if function.cache == ResultCache.none.name {
            let quotas = function.price.quota == nil ? [] : try await refresh(.quotas)
            let balance = try await refresh(.balance)
            try check.check(quotas, balance, at: configuration.clock.now())
        }
        return try await upload(file, progress: progress)
    }
}

// MARK: - Quotas

extension SanguineClient {
    /// Consumes units of a quota, for work that the app does itself.
    ///
    /// ```swift
    /// try await client.consume("readings", id: reading.id)
    /// ```
    ///
    /// The units are visible as used at once, and as unused again if the server refuses. A request
    /// whose answer is lost is sent again under the same id, and counts once. Without a network the
    /// method throws: the authority decides before the work begins. For work that must not wait,
    /// use ``consumeOptimistically(_:amount:id:)``.
    ///
    /// - Parameters:
    ///   - quota: The quota's name in the server's configuration.
    ///   - amount: The number of units, at least 1. Default: 1.
    ///   - id: The id of the work, 1 to 128 visible ASCII characters. Requests with the same id
    ///     count once: in this process, in a later one, and on the user's other devices, as long as
    ///     the server stores keys. Pass one if the work is repeated after a restart. Default: a new
    ///     id.
    /// - Returns: The quota afterwards.
    /// - Throws: ``SanguineError``: a problem with `quota_exhausted`, which says when the quota
    ///   resets and which plans lift it; `not_found` for an unknown quota;
    ///   ``SanguineError/outcomeUnknown(operation:)`` if every answer was lost: repeat it with the
    ///   error's id.
    @discardableResult
    public nonisolated(nonsending) func consume(
        _ quota: String,
        amount: Int64 = 1,
        id: String? = nil
    ) async throws(SanguineError) -> Quota {
        try await QuotaConsumer(users: users).consume(quota, amount: amount, id: id)
    }

    /// Consumes units of a quota at once, also without a network.
    ///
    /// ```swift
    /// let use = try client.consumeOptimistically("readings", id: reading.id)
    /// ```
    ///
    /// The use is stored on disk and counts as used when this returns. The ``Outbox`` sends it, now
    /// or when the network returns, also in a later process and after the guest has become a part
    /// of an account; it takes effect once. If the authority refuses it, because another device has
    /// used the units, it counts as unused again, and is reported by ``Quotas/refusals``. It uses a
    /// unit of the period in which the authority receives it.
    ///
    /// A use beyond the rest that this device knows is refused at once. While no quota was ever
    /// received, none is refused.
    ///
    /// - Parameters:
    ///   - quota: The quota's name in the server's configuration.
    ///   - amount: The number of units, at least 1. Default: 1.
    ///   - id: The id of the work, 1 to 128 visible ASCII characters; see
    ///     ``consume(_:amount:id:)``. A use that waits under the same id is not added again.
    ///     Default: a new id.
    /// - Returns: The use, with the quota as it is now.
    /// - Throws: ``SanguineError``, and nothing is used then: a problem with `quota_exhausted`,
    ///   which says when the quota resets and which plans lift it; `outboxFull`, `store` if the
    ///   disk failed, ``SanguineError/notConfigured(_:)`` without a server.
    @discardableResult
    public func consumeOptimistically(
        _ quota: String,
        amount: Int64 = 1,
        id: String? = nil
    ) throws(SanguineError) -> QuotaUse {
        guard services.configuration.server != nil else { throw .notConfigured("'server'") }
        return try users.perform { user throws(SanguineError) in
            let now = services.configuration.clock.now()
            let key = id ?? user.outbox.environment.newId().description
            let use = QuotaConsumption(quota: quota, amount: amount, key: key)
            try use.check()
            user.authorizer.allowSignIn()
            if let waiting = try user.outbox.receipt(of: QuotaConsumption.name, in: use.lane) {
                return QuotaUse(id: key, quota: quotas[quota], receipt: waiting)
            }
            if let known = quotas[quota], !known.allows(amount) {
                throw .problem(.exhausted(known, at: now))
            }
            let receipt = try user.mutations.perform(use)
            return QuotaUse(id: key, quota: quotas[quota], receipt: receipt)
        }
    }

    /// The quota's limit as a view shows it: the rest, the time of the reset, and what lifts it.
    ///
    /// All views of one quota share the object.
    @MainActor
    public func paywall(for quota: String) -> PaywallState {
        let key = QueryKey(name: "$paywall", parameters: [quota])
        return services.models.model(key) { PaywallState(quota, users) }
    }
}
