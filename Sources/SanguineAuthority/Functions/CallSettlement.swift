import SanguineModel

/// The change that ends an accepted call in the storage.
///
/// Storing it again has no further effect.
struct CallSettlement: Sendable {
    private enum Change: Sendable {
        /// Nothing has happened: the call is taken back.
        case withdraw(Problem)
        case settle(CallEnd, parts: Int64?, with: [SanguineAuthority.Change])
    }

    /// The call.
    let call: AcceptedCall
    /// What tells its request from another one under its key.
    let fingerprint: Fingerprint
    /// Bytes that it takes in memory, roughly.
    let bytes: Int
    private let change: Change

    /// The end of a call.
    init(
        _ call: AcceptedCall,
        _ fingerprint: Fingerprint,
        _ end: CallEnd,
        parts: Int64?,
        with changes: [SanguineAuthority.Change],
        bytes: Int
    ) {
        self.call = call
        self.fingerprint = fingerprint
        self.bytes = bytes + Self.overhead
        change = .settle(end, parts: parts, with: changes)
    }

    /// The withdrawal of a call, for a reason.
    init(withdrawing call: AcceptedCall, _ fingerprint: Fingerprint, _ reason: Problem) {
        self.call = call
        self.fingerprint = fingerprint
        bytes = Self.overhead
        change = .withdraw(reason)
    }

    /// Stores it.
    ///
    /// - Returns: The answer, or the reason of a withdrawal.
    /// - Throws: As ``Authority/settle(_:_:parts:with:)`` does.
    func store(in authority: Authority) async throws(Problem) -> Result<Answer, Problem> {
        switch change {
        case .withdraw(let reason):
            try await authority.withdraw(call)
            return .failure(reason)
        case .settle(let end, let parts, let changes):
            return .success(try await authority.settle(call, end, parts: parts, with: changes))
        }
    }

    /// Bytes that a settlement takes in addition to its output, roughly.
    static let overhead = 1_024
}

extension FlightEnd {
    /// Bytes of the output.
    var bytes: Int {
        if case .made(let output, _, _) = self { output.count } else { 0 }
    }
}
