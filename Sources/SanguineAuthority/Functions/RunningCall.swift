import SanguineModel

/// A call that was accepted by this process and is not settled yet: what it waits for, and what is
/// given to those who wait for it.
final class RunningCall: Sendable {
    /// The call.
    let call: AcceptedCall
    /// The run that makes its answer.
    let flight: Flight
    /// What a whole answer to it costs, given what the run has cost.
    let terms: Terms
    /// What is charged for what was made, if the run is cut short.
    let cost: @Sendable (CallProgress) -> Int64
    /// Whether its answer is waited for in one piece.
    let isPlain: Bool
    /// Its end: the answer, or why there is none.
    let ending = OneAnswer<Result<Answer, Problem>>()

    /// What a call pays.
    enum Terms: Sendable {
        /// What the run costs.
        case price
        /// What an answer costs that was there already.
        case cached(Int64)
    }

    init(
        _ call: AcceptedCall,
        _ flight: Flight,
        _ terms: Terms,
        isPlain: Bool,
        cost: @escaping @Sendable (CallProgress) -> Int64
    ) {
        self.call = call
        self.flight = flight
        self.terms = terms
        self.cost = cost
        self.isPlain = isPlain
        flight.join(isPlain: isPlain)
    }

    /// How the call ends with its run.
    ///
    /// - Returns: `nil` if nothing is kept of the call.
    func end(_ end: FlightEnd) -> CallEnd? {
        switch (end, terms) {
        case (.made(let output, let charge), .price):
            return .succeeded(charge: charge) { [call] balance, quota in
                AnswerEncoder.result(output, charge, false, call.operation, balance, quota)
            }
        case (.made(let output, _), .cached(let charge)):
            return .succeeded(charge: charge) { [call] balance, quota in
                AnswerEncoder.result(output, charge, true, call.operation, balance, quota)
            }
        case (.failed(let problem), _):
            return .failed(problem)
        case (.cut(let problem, let wasSent), .price):
            let progress = flight.log.progress
            return .cut(
                charge: wasSent ? cost(progress) : 0,
                takesQuota: wasSent && progress.parts > 0,
                problem
            )
        case (.cut(let problem, _), .cached):
            return .cut(charge: 0, takesQuota: false, problem)
        case (.withdrawn, _):
            return nil
        }
    }
}

extension AnswerEncoder {
    /// A ``FunctionResult`` around an output that is JSON already, with its members in the order of
    /// their names.
    static func result(
        _ output: [UInt8],
        _ charged: Int64,
        _ isCached: Bool,
        _ operation: Identifier,
        _ balance: BalanceRow,
        _ quota: Quota?
    ) -> [UInt8] {
        var body = Array(
            """
            {"cached":\(isCached),"charged":\(charged),"head":\(balance.head),\
            "held":\(balance.held),"operation":"\(operation)","output":
            """.utf8
        )
        body += output
        if let quota { body += Array(#","quota":"#.utf8) + encode(quota) }
        body += Array(#","tokensRemaining":\#(balance.available)}"#.utf8)
        return body
    }
}
