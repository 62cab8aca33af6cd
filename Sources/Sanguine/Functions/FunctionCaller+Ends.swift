import Foundation
import SanguineModel

/// The ends of calls.
///
/// A call that has ended stays among the open calls until the app has read its end, so that a crash
/// in between does not lose an answer that was paid for.
extension FunctionCaller {
    /// Settles the balance from its part of the answer, before the output is decoded: an output
    /// that does not match the app's declaration is charged anyway.
    ///
    /// - Parameters:
    ///   - body: The answer.
    ///   - epoch: The epoch of the answer's number; `nil` if the server has none.
    ///   - sending: The call.
    /// - Throws: ``SanguineError/decoding(_:)``; ``SanguineError/userChanged``.
    func settle(
        _ body: Data,
        _ epoch: Epoch?,
        _ sending: CallRequest
    ) throws(SanguineError) {
        let charge = try WireCoding.decode(CallCharge.self, from: body)
        if let messages {
            messages.answered(sending.key, body, head: charge.head, epoch)
            messages.persist()  // Before the app reads the answer, which may remove the open call.
        }
        try settle(charge, epoch, sending)
    }

    /// Like ``settle(_:_:_:)``, for an answer in one piece, which may not come from the server.
    func settle(
        whole body: Data,
        _ epoch: Epoch?,
        _ sending: CallRequest
    ) throws(SanguineError) {
        do throws(SanguineError) {
            try settle(body, epoch, sending)
        } catch .decoding(let failure) {
            let response = TransportResponse(status: 200, body: body)
            guard response.hasNothing(of: CallCharge.self, with: WireCoding.makeDecoder()) else {
                throw .decoding(failure)
            }
            throw .transport(.intercepted("\(body.count) bytes without members of a call's result"))
        }
    }

    private func settle(
        _ charge: CallCharge,
        _ epoch: Epoch?,
        _ sending: CallRequest
    ) throws(SanguineError) {
        let now = configuration.clock.now()
        balance.ended { state in
            state.answered(
                sending.key,
                function: sending.function,
                charge.answer(tokensInstead: sending.tokensInstead),
                charge.quota,
                epoch: epoch,
                at: now
            )
        }
        let amount = charge.answer(tokensInstead: sending.tokensInstead).charged
        sender.steps?.log(
            .charge,
            .call(sending.function, key: sending.key),
            amount: amount
        )
        try call.authorizer.check()
    }

    /// Records how the requests of a call have failed; returns the error for the app.
    func ended(_ sending: CallRequest, _ failure: CallFailure) -> SanguineError {
        guard sending.body != nil else { return lost(sending, failure) }
        let error = failure.errorForApp
        if error.asProblem?.code == .quotaExhausted { analytics?.post(.quotaExhausted) }
        messages?.failed(sending.key, failure)
        balance.ended { state in
            switch failure.verdict {
            case .refused: state.refused(sending.key)
            case .released:
                state.released(sending.key, head: failure.head, epoch: failure.epoch)
            case .charged, .unknown, .again: state.gaveUp(sending.key)
            }
            guard failure.verdict != .unknown else { return }
            state.failed(sending.key, error.asProblem)
        }
        logEnd(of: sending, failure)
        guard failure.verdict == .unknown else { return error }
        switch error {
        case .userChanged, .closed, .cancelled, .decoding: return error
        default: return .outcomeUnknown(operation: sending.key)
        }
    }

    private func logEnd(of sending: CallRequest, _ failure: CallFailure) {
        guard let steps = sender.steps, failure.verdict == .refused || failure.verdict == .released
        else { return }
        let step: StepLog.Step = failure.verdict == .refused ? .refused : .settled
        steps.log(
            step,
            .call(sending.function, key: sending.key),
            code: failure.errorForApp.metricsCode
        )
    }

    /// Records that a lookup did not find the call, or found that it failed.
    ///
    /// This does not show the outcome of the call's own request.
    private func lost(_ sending: CallRequest, _ failure: CallFailure) -> SanguineError {
        let error = failure.errorForApp
        let problem = error.asProblem
        if failure.verdict != .refused { messages?.failed(sending.key, failure) }
        balance.ended { state in
            switch (failure.verdict, problem?.code) {
            case (.released, _):
                state.released(sending.key, head: failure.head, epoch: failure.epoch)
            case (.charged, _), (_, .notFound), (_, .idempotencyExpired):
                state.gaveUp(sending.key)
            default: return
            }
            state.failed(sending.key, problem)
        }
        return error
    }

    /// Records that a call without a reader could not be begun, or broke off.
    func failedUnread(_ sending: CallRequest, _ error: SanguineError) {
        var (attempts, random) = (CallRetryState(), configuration.random)
        let verdict = attempts.failed(error, using: &random)
        if case .again = verdict { return detached(sending) }
        _ = ended(sending, CallFailure(verdict: verdict, error: error))
    }

    /// Records that a call's answer no longer has a reader; the balance asks for its outcome.
    func detached(_ sending: CallRequest) { balance.ended { $0.gaveUp(sending.key) } }

    /// Records that the app has read the end of the call.
    func resultRead(_ key: String) async { await balance.resultRead(key) }
}

extension CallFailure {
    /// The error for the app.
    ///
    /// A call that has ended permanently counts as refused, even if another call might succeed: its
    /// key returns the same answer again.
    var errorForApp: SanguineError {
        switch (verdict, error) {
        case (.released, .problem(let problem)), (.charged, .problem(let problem)):
            .problem(problem.ofEndedCall)
        default: error
        }
    }
}

extension SanguineError {
    /// Whether a call ended with this error, in contrast to a request that looked for its answer.
    var isEndOfCall: Bool { asProblem?.known?.errorClass == .refused }
}
