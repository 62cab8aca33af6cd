package import SanguineModel

// Access to calls by their keys.
extension CallRunner {
    /// Finds a call by its key.
    ///
    /// - Throws: `not_found` for a key without a call of the account, `operation_in_progress` for a
    ///   running call that is not read in parts, and `idempotency_expired`.
    package func find(
        _ position: OperationPosition,
        from address: String?,
        as reader: AnswerForm
    ) async throws(Problem) -> CallReply {
        if let call = services.calls.call(position) {
            guard reader.wantsParts else { throw .stillRunning }
            let permit = try readerPermit(position.account, address)
            return .events(follow(call, after: reader.after, permit), .shared)
        }
        let isUnsettled = services.unsettled.contains(position)
        let found: OperationRow?
        do throws(Problem) {
            found = try await services.authority.operation(position)
        } catch {
            throw isUnsettled ? .stillRunning : error
        }
        guard let row = found else { throw isUnsettled ? .stillRunning : .noCall }
        switch row.state {
        case .running:
            throw isUnsettled ? .stillRunning : await patient(.stillRunning, position)
        case .pushed:
            throw .noCall
        case .forgotten:
            throw Problem(
                .idempotencyExpired,
                "The answer is no longer kept. Call again with a new key."
            )
        case .done(let answer):
            guard await answer.isCall(of: position.account) else { throw .noCall }
            return replay(answer, run: row.run, as: reader)
        }
    }

    /// Cancels a running call for its owner.
    ///
    /// - Returns: The end of the call, even if it had ended before.
    /// - Throws: `not_found` for a key without a call of the account, `operation_in_progress` for a
    ///   call that cannot be stopped.
    package func cancel(_ position: OperationPosition) async throws(Problem) -> CallCancellation {
        guard let call = services.calls.call(position) else {
            let isUnsettled = services.unsettled.contains(position)
            guard let row = try await services.authority.operation(position) else {
                throw isUnsettled ? .stillRunning : .noCall
            }
            guard case .done(let answer) = row.state else { throw .stillRunning }
            guard await answer.isCall(of: position.account) else { throw .noCall }
            return try await services.authority.ending(position.account, answer)
        }
        let sharedRun = call.sharedRun
        guard sharedRun.isStreamed || !sharedRun.isSent else { throw .inOnePiece }
        if !sharedRun.cancelIfOnesOwn(.callCancelled) {
            // Its charge pays for the run that others wait for.
            guard !call.paysForOthers else { throw .isShared }
            try await cancelAlone(call)
        }
        let answer = try await call.ending.wait().get()
        return try await services.authority.ending(position.account, answer.stored)
    }

    /// Ends a call whose run continues for others.
    private func cancelAlone(_ call: RunningCall) async throws(Problem) {
        let sharedRun = call.sharedRun
        let count = call.stopReading()
        await sharedRun.log.waitUntilStored(through: count)
        let end = RunEnd.cut(.callCancelled, wasSent: sharedRun.isSent)
        // If this settlement is not stored, there is no retry: the call continues with its run.
        let message = await services.message(of: call, end, parts: count)
        let settlement = call.settlement(end, parts: count, leaving: message)
        let answer: Answer
        switch await services.persist(settlement) {
        case .success(let end): answer = try end.get()
        case .failure(let problem): throw problem.code == .overloaded ? .endUnknown : problem
        }
        call.countIfAbandoned(end)
        services.end(call, with: .success(answer))
    }
}

extension Problem {
    fileprivate static var noCall: Problem {
        Problem(.notFound, "Check the key: this account has no such call, or it is no longer kept.")
    }

    fileprivate static var stillRunning: Problem {
        Problem(
            .operationInProgress,
            "The call is still running. Ask again, or follow it with 'Accept: text/event-stream'.",
            retryAfter: 1
        )
    }

    fileprivate static var inOnePiece: Problem {
        Problem(
            .operationInProgress,
            "Wait for the answer: it is not streamed, and the call was already sent.",
            retryAfter: 1
        )
    }

    fileprivate static var isShared: Problem {
        Problem(
            .operationInProgress,
            "Wait for the answer, or close its stream: other calls wait for the same answer.",
            retryAfter: 1
        )
    }
}

extension StoredAnswer {
    /// Whether it is the answer of a call: a successful one contains the operation.
    fileprivate func isCall(of account: Identifier) async -> Bool {
        guard status < 400 else { return true }
        return await WireBody.perform(body.count, for: account) {
            (try? JSONParser.parse(body, limits: .stored).value)?["operation"] != nil
        }
    }
}
