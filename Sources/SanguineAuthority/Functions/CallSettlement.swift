import SanguineModel

/// The change that stores the end of an accepted call.
///
/// Storing it again has no further effect.
struct CallSettlement: Sendable {
    private enum Change: Sendable {
        /// Nothing has happened: the call is withdrawn.
        case withdraw(Problem)
        case settle(
            CallEnd,
            parts: Int64?,
            with: [SanguineAuthority.Change],
            CallRecords?,
            MessageEnd?
        )
    }

    /// The call.
    private(set) var call: AcceptedCall
    /// The fingerprint, which distinguishes its request from another one with the same key.
    let fingerprint: Fingerprint
    /// The approximate size in memory in bytes.
    let bytes: Int
    private let change: Change

    /// Creates the settlement of a call.
    init(
        _ call: AcceptedCall,
        _ fingerprint: Fingerprint,
        _ end: CallEnd,
        parts: Int64?,
        with changes: [SanguineAuthority.Change],
        recording records: CallRecords? = nil,
        leaving message: MessageEnd? = nil,
        bytes: Int
    ) {
        self.call = call
        self.fingerprint = fingerprint
        self.bytes = bytes + Self.overhead
        change = .settle(end, parts: parts, with: changes, records, message)
    }

    /// Creates the withdrawal of a call, with the reason.
    init(withdrawing call: AcceptedCall, _ fingerprint: Fingerprint, _ reason: Problem) {
        self.call = call
        self.fingerprint = fingerprint
        bytes = Self.overhead
        change = .withdraw(reason)
    }

    /// Returns the settlement of the call as one of another account, into which its guest was
    /// merged.
    func paid(by account: Identifier) -> CallSettlement {
        var settlement = self
        settlement.call = call.paid(by: account)
        return settlement
    }

    /// Stores the end.
    ///
    /// - Returns: The answer, or the reason for a withdrawal.
    /// - Throws: see ``Authority/settle(_:_:parts:with:)``.
    func store(in authority: Authority) async throws(Problem) -> Result<Answer, Problem> {
        switch change {
        case .withdraw(let reason):
            try await authority.withdraw(call)
            return .failure(reason)
        case .settle(let end, let parts, let changes, let records, let message):
            return .success(
                try await authority.settle(
                    call,
                    end,
                    parts: parts,
                    with: changes,
                    recording: records,
                    leaving: message
                )
            )
        }
    }

    /// The approximate size in bytes of a settlement without its output.
    static let overhead = 1_024
}

extension RunEnd {
    /// The size of the output in bytes.
    var bytes: Int {
        if case .made(let output, _, _) = self { output.count } else { 0 }
    }
}
