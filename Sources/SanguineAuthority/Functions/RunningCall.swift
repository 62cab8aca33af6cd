import SanguineModel
import Synchronization

/// A call that this process has accepted and not settled yet, with its run and its readers.
///
/// Invariant: it wants its run until it is settled, and leaves it once. Until then it stands in
/// line for the run's turn, if the run has had none.
///
/// Mutable state: `state`, protected by its mutex; the ending guards its own.
final class RunningCall: Sendable {
    private struct State {
        /// Whether no reader has read it yet.
        var isUnread = true
        var hasLeft = false
        /// Whether it was counted as abandoned.
        var isCounted = false
        /// How many parts its readers are given, once it ends before its run.
        var limit: Int64?
    }

    /// The call.
    let call: AcceptedCall
    /// The run that makes its answer.
    let sharedRun: SharedRun
    /// Its place in line for the run's turn; `nil` if the run had that already.
    private let ticket: CallQueue.Ticket?
    /// What a whole answer to it costs, given what the run has cost.
    let terms: Terms
    /// Whether others, who share its run, do not pay for that.
    let paysForOthers: Bool
    /// Whether its answer is sent in one piece, so that it needs the run with or without readers.
    let isPlain: Bool
    /// When its hold expires, by ``RunServices/uptime``.
    let expiresAt: Duration
    /// What tells the request from another one under its key.
    let fingerprint: Fingerprint
    /// What the function costs, and when that is charged.
    let price: Price
    /// What is charged for what was made, if the run is cut short.
    let cost: @Sendable (RunProgress) -> Int64
    /// Counts the call as abandoned, if that is limited.
    private let onAbandoned: @Sendable () -> Void
    /// Its end: the answer, or why there is none.
    let ending = OneShotValue<Result<Answer, Problem>>()

    private let state = Mutex(State())

    /// What a call pays.
    enum Terms: Sendable {
        /// What the run costs.
        case price
        /// What an answer costs that was there already.
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
        self.cost = cost
    }

    /// The run whose parts the answer has; `nil` if it comes in one piece.
    var run: Identifier? { sharedRun.isStreamed ? sharedRun.id : nil }

    /// Whether its owner ends it before its run.
    var endsEarly: Bool { state.withLock { $0.limit != nil } }

    /// Wants its run no more.
    func leave() {
        let isUnread = state.withLock { state -> Bool? in
            guard !state.hasLeft else { return nil }
            state.hasLeft = true
            return state.isUnread
        }
        guard let isUnread else { return }
        if let ticket { sharedRun.turn.giveBack(ticket) }
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

    /// What is given to readers of the call: the parts, or fewer if it ends before its run.
    func visibleParts(_ texts: [String], at index: Int64) -> [String] {
        let limit = state.withLock { $0.limit }
        guard let limit else { return texts }
        return Array(texts.prefix(Int(max(0, limit - index))))
    }

    /// The call ends before its run: its readers are given no more than what there is now.
    ///
    /// - Returns: How many parts there are.
    func stopReading() -> Int64 {
        state.withLock { state in
            // Read under the lock: no reader was given more.
            let limit = state.limit ?? sharedRun.log.count
            state.limit = limit
            return limit
        }
    }

    // MARK: - The end

    /// What ends the call in the storage.
    ///
    /// - Parameters:
    ///   - end: How its run has ended.
    ///   - parts: How many parts its answer has, if it is streamed.
    ///   - changes: Further changes of the same commit. Default: none.
    /// - Returns: What is to be stored.
    func settlement(
        _ end: RunEnd,
        parts: Int64,
        with changes: [Change] = []
    ) -> CallSettlement {
        guard let callEnd = self.end(end) else {
            var reason = Problem.noTurn
            if case .withdrawn(let problem) = end { reason = problem }
            return CallSettlement(withdrawing: call, fingerprint, reason)
        }
        var bytes = end.bytes
        for case .put(.parts(let row)) in changes { bytes += row.texts.count }
        return CallSettlement(
            call,
            fingerprint,
            callEnd,
            parts: run == nil ? nil : parts,
            with: changes,
            bytes: bytes
        )
    }

    /// How it ends with a run that is cut short.
    private func incompleteEnd(_ problem: Problem, _ wasSent: Bool) -> IncompleteEnd {
        IncompleteEnd(
            wasSent: wasSent,
            hasParts: sharedRun.log.progress.parts > 0,
            // A run that the server stops has no reason of its own.
            isByCaller: problem.code == .callCancelled || sharedRun.cutReason != nil
        )
    }

    /// Counts the call if its caller ends it for nothing after it has left.
    ///
    /// - Parameter end: How it ends; nothing is counted of a call that has ended before.
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

    /// What is charged if nothing more is learned of the call than this.
    func chargeWhenLost(_ progress: RunProgress) -> Int64 { charge(progress, .lost) }

    /// What is charged for an answer that is not whole, in tokens.
    private func charge(_ progress: RunProgress, _ end: IncompleteEnd) -> Int64 {
        let paysInstead = price.quota?.moment.charges(end) ?? false
        return price.charge(cost(progress), for: end) + (paysInstead ? call.tokensInstead : 0)
    }

    /// How the call ends with its run.
    ///
    /// - Returns: `nil` if nothing is kept of the call.
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
            // One that cost nothing, and of which nothing was seen, runs again with its key.
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
    /// A ``FunctionResult`` around an output that is JSON already, with its members in the order of
    /// their names.
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
