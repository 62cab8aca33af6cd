import SanguineModel
import Synchronization

/// A call that this process has accepted and not settled yet, with its run and its readers.
///
/// Invariant: it wants its run until it is settled, and leaves it once. Until then, it is queued
/// for the run's turn if the run has not had its turn.
///
/// Mutable state: `state`, protected by its mutex; the ending guards its own.
final class RunningCall: Sendable {
    private struct State {
        /// Whether no reader has read it yet.
        var isUnread = true
        var hasLeft = false
        /// Whether it was counted as abandoned.
        var isCounted = false
        /// The number of parts that its readers receive, if it ends before its run.
        var limit: Int64?
    }

    /// The call.
    let call: AcceptedCall
    /// The run that produces its answer.
    let sharedRun: SharedRun
    /// Its ticket in the queue for the run's turn; `nil` if the run already had its turn.
    private let ticket: CallQueue.Ticket?
    /// The price of a complete answer, given the cost of the run.
    let terms: Terms
    /// Whether other calls that share its run do not pay because this one does.
    let paysForOthers: Bool
    /// Whether its answer is sent in one piece, so that it needs the run even without readers.
    let isPlain: Bool
    /// When its hold expires, by ``RunServices/uptime``.
    let expiresAt: Duration
    /// Distinguishes the request from other requests with the same key.
    let fingerprint: Fingerprint
    /// The price of the function, and when it is charged.
    let price: Price
    /// Returns the charge for the parts that were produced, if the run is cut short.
    let cost: @Sendable (RunProgress) -> Int64
    /// Counts the call as abandoned, if their number is limited.
    private let onAbandoned: @Sendable () -> Void
    /// Called when the call was answered.
    private let onAnswered: @Sendable () -> Void
    /// Its result: the answer, or the reason why there is none.
    let ending = OneShotValue<Result<Answer, Problem>>()

    private let state = Mutex(State())

    /// The amount that a call pays.
    enum Terms: Sendable {
        /// The cost of the run.
        case price
        /// The price of a cached answer.
        case cached(Int64)
    }

    init(
        _ call: AcceptedCall,
        _ sharedRun: SharedRun,
        _ terms: Terms,
        ticket: CallQueue.Ticket?,
        paysForOthers: Bool = false,
        isPlain: Bool,
        expiresAt: Duration,
        fingerprint: Fingerprint,
        price: Price,
        onAbandoned: @escaping @Sendable () -> Void = {},
        onAnswered: @escaping @Sendable () -> Void = {},
        cost: @escaping @Sendable (RunProgress) -> Int64
    ) {
        self.call = call
        self.sharedRun = sharedRun
        self.ticket = ticket
        self.terms = terms
        self.paysForOthers = paysForOthers
        self.isPlain = isPlain || !sharedRun.isStreamed
        self.expiresAt = expiresAt
        self.fingerprint = fingerprint
        self.price = price
        self.onAbandoned = onAbandoned
        self.onAnswered = onAnswered
        self.cost = cost
        sharedRun.accepted(call.account)
    }

    /// The run whose parts form the answer; `nil` if the answer comes in one piece.
    var run: Identifier? { sharedRun.isStreamed ? sharedRun.id : nil }

    /// The call with the language model that its run has asked.
    var labelled: AcceptedCall {
        var labelled = call
        labelled.model = sharedRun.model
        return labelled
    }

    /// Whether its owner ends it before its run.
    var endsEarly: Bool { state.withLock { $0.limit != nil } }

    /// Leaves the run, because the call no longer wants it.
    func leave() {
        let isUnread = state.withLock { state -> Bool? in
            guard !state.hasLeft else { return nil }
            state.hasLeft = true
            return state.isUnread
        }
        guard let isUnread else { return }
        if let ticket { sharedRun.turn.giveBack(ticket) }
        sharedRun.acceptedLeft(call.account)
        sharedRun.leave(isUnread: isUnread)
    }

    // MARK: - Readers

    /// A caller reads its parts.
    func readerJoined() {
        let isFirst = state.withLock { state in
            guard !isPlain, !state.hasLeft else { return false }
            defer { state.isUnread = false }
            return state.isUnread
        }
        sharedRun.readerJoined(isFirst: isFirst)
    }

    /// Returns the parts for readers of the call: all of them, or fewer if it ends before its run.
    func visibleParts(_ texts: [String], at index: Int64) -> [String] {
        let limit = state.withLock { $0.limit }
        guard let limit else { return texts }
        return Array(texts.prefix(Int(max(0, limit - index))))
    }

    /// Ends the call before its run: its readers receive no further parts.
    ///
    /// - Returns: The number of parts that they receive.
    func stopReading() -> Int64 {
        state.withLock { state in
            // Read under the lock, so that no reader has received more.
            let limit = state.limit ?? sharedRun.log.count
            state.limit = limit
            return limit
        }
    }

    // MARK: - End of the call

    /// Returns the changes that end the call in the storage.
    ///
    /// - Parameters:
    ///   - end: The end of its run.
    ///   - parts: The number of parts of its answer, if it is streamed.
    ///   - changes: Further changes in the same commit. Default: none.
    ///   - records: Changes of records in the same commit. Default: none.
    ///   - message: The end of its answer in a thread. Default: none.
    /// - Returns: The settlement to store.
    func settlement(
        _ end: RunEnd,
        parts: Int64,
        with changes: [Change] = [],
        recording records: CallRecords? = nil,
        leaving message: MessageEnd? = nil
    ) -> CallSettlement {
        guard let callEnd = self.end(end) else {
            var reason = Problem.noTurn
            if case .withdrawn(let problem) = end { reason = problem }
            return CallSettlement(withdrawing: call, fingerprint, reason)
        }
        // The changes of records have a copy of the output.
        var bytes = records == nil ? end.bytes : 2 * end.bytes
        for case .put(.parts(let row)) in changes { bytes += row.texts.count }
        return CallSettlement(
            labelled,
            fingerprint,
            callEnd,
            parts: run == nil ? nil : parts,
            with: changes,
            recording: records,
            leaving: message,
            bytes: bytes + (message?.content?.bytes ?? 0)
        )
    }

    /// Returns how the call ends if its run is cut short.
    private func incompleteEnd(_ problem: Problem, _ wasSent: Bool) -> IncompleteEnd {
        IncompleteEnd(
            wasSent: wasSent,
            hasParts: sharedRun.log.progress.parts > 0,
            // A run that the server stops has no separate reason.
            isByCaller: problem.code == .callCancelled || sharedRun.cutReason != nil
        )
    }

    /// Reports the result of the call, if it is a complete answer.
    func reportAnswer(_ result: Result<Answer, Problem>) {
        if case .success(let answer) = result, answer.stored.status == 200 { onAnswered() }
    }

    /// Counts the call if its caller ends it without a charge after it was sent.
    ///
    /// - Parameter end: The end of its run; a call that has already ended is not counted.
    func countIfAbandoned(_ end: RunEnd) {
        guard case .cut(let problem, let wasSent) = end, case .price = terms,
            incompleteEnd(problem, wasSent) == .abandoned
        else { return }
        let isFirst = state.withLock { state in
            defer { state.isCounted = true }
            return !state.hasLeft && !state.isCounted
        }
        if isFirst { onAbandoned() }
    }

    /// Returns the charge if nothing further becomes known about the call.
    func chargeWhenLost(_ progress: RunProgress) -> Int64 { charge(progress, .lost) }

    /// Returns the charge for an incomplete answer, in tokens.
    private func charge(_ progress: RunProgress, _ end: IncompleteEnd) -> Int64 {
        let paysInstead = price.quota?.moment.charges(end) ?? false
        return price.charge(cost(progress), for: end) + (paysInstead ? call.tokensInstead : 0)
    }

    /// Returns how the call ends with its run.
    ///
    /// - Returns: The end, or `nil` if nothing of the call is kept.
    func end(_ end: RunEnd) -> CallEnd? {
        switch (end, terms) {
        case (.made(let output, let charge, let reason), .price):
            let all = charge + call.tokensInstead
            return .succeeded(charge: all) { [call] balance, quota in
                ResponseEncoder.result(output, all, false, call.operation, balance, quota, reason)
            }
        case (.made(let output, _, let reason), .cached(let charge)):
            return .succeeded(charge: charge) { [call] balance, quota in
                ResponseEncoder.result(output, charge, true, call.operation, balance, quota, reason)
            }
        case (.failed(let problem), _):
            return .failed(problem)
        case (.cut(let problem, let wasSent), .price):
            let progress = sharedRun.log.progress
            let end = incompleteEnd(problem, wasSent)
            let takesQuota = price.quota?.moment.charges(end) ?? false
            let charge = charge(progress, end)
            // A call that cost nothing and whose parts were not seen can run again under the same
            // key.
            if charge == 0, !takesQuota, progress.parts == 0, problem.code == .interrupted {
                return .failed(problem)
            }
            return .cut(charge: charge, takesQuota: takesQuota, problem)
        case (.cut(let problem, _), .cached):
            return .cut(charge: 0, takesQuota: false, problem)
        case (.withdrawn, _):
            return nil
        }
    }
}

extension ResponseEncoder {
    /// Returns a ``FunctionResult`` around an output that is already JSON, with its members sorted
    /// by name.
    static func result(
        _ output: [UInt8],
        _ charged: Int64,
        _ isCached: Bool,
        _ operation: Identifier,
        _ balance: BalanceRow,
        _ quota: Quota?,
        _ reason: FinishReason? = nil
    ) -> [UInt8] {
        var body = Array(#"{"cached":\#(isCached),"charged":\#(charged)"#.utf8)
        if let reason { body += Array(#","finishReason":"#.utf8) + encode(reason.text) }
        body += Array(
            """
            ,"head":\(balance.head),"held":\(balance.held),"operation":"\(operation)","output":
            """.utf8
        )
        body += output
        if let quota { body += Array(#","quota":"#.utf8) + encode(quota) }
        body += Array(#","tokensRemaining":\#(balance.available)}"#.utf8)
        return body
    }
}
