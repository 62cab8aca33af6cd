package import SanguineModel

/// A call with an answer, for which its function changes records of the account.
package struct CompletedCall: Sendable {
    /// The idempotency key.
    package let key: String
    /// The account's profile.
    package let account: Account
    /// The time at which the answer is stored.
    package let at: Timestamp
}

/// The changes of records that a call makes in the transaction that charges it and stores its
/// answer.
///
/// A repetition of the call finds the answer, and changes nothing. A call that fails, or whose
/// process crashes before its end is stored, has changed nothing either.
struct CallRecords: Sendable {
    /// Returns the mutations; see ``PreparedCall/records``.
    private let mutations: PreparedCall.Recording
    /// Returns how the call ends if its changes are refused.
    private let refused: @Sendable (Problem) -> CallEnd

    /// Reads the output of a call.
    ///
    /// - Parameters:
    ///   - records: The function's declaration; see ``PreparedCall/records``.
    ///   - output: The output as JSON.
    ///   - account: The account that pays.
    ///   - refused: Returns how the call ends if its changes are refused.
    init(
        _ records: @escaping PreparedCall.Records,
        of output: [UInt8],
        for account: Identifier,
        refused: @escaping @Sendable (Problem) -> CallEnd
    ) async {
        self.refused = refused
        mutations = await WireBody.perform(output.count, for: account) {
            do {
                return try records(try JSONParser.parse(output, limits: .tolerant).value)
            } catch {
                let refusal = Self.refusal(error)
                return { _ in throw refusal }
            }
        }
    }

    /// The changes of a call's end.
    struct Outcome {
        /// The end: a failure if the changes were refused.
        var end: CallEnd
        /// The balance, with the numbers of the feed that the changes have.
        var balance: BalanceRow
        /// The rows to store; empty if nothing changes.
        var changes: [Change] = []
        /// Whether records change.
        var isChange: Bool { !changes.isEmpty }
    }

    /// Decides on the changes of a call that ends.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - operation: The id of its operation, which the mutations see.
    ///   - end: Its end.
    ///   - balance: The balance of the account.
    ///   - loaded: The account and its feed.
    ///   - reader: The reader of records.
    ///   - sync: The rules for records.
    /// - Returns: The changes.
    /// - Throws: `overloaded` while an index is incomplete, or the storage's error: the call ends
    ///   later.
    func outcome(
        of call: OperationPosition,
        _ operation: Identifier,
        _ end: CallEnd,
        _ balance: BalanceRow,
        _ loaded: Loaded,
        _ reader: any RecordReader,
        _ sync: SyncCommands
    ) throws(Problem) -> Outcome {
        // A deleted account has no records.
        guard case .succeeded = end, let row = loaded.account(call.account), row.state == .active
        else { return Outcome(end: end, balance: balance) }
        let completed = CompletedCall(
            key: call.key,
            account: row.profile(at: sync.now),
            at: sync.now
        )
        var draft = try sync.begin(call.account, loaded, reader)
        do {
            try draft.run(try mutations(completed), as: operation)
            try draft.dropTombstones()
        } catch let index as IncompleteIndex {
            throw .incomplete(index.name)
        } catch let problem as Problem {
            throw problem
        } catch let error as StorageError {
            throw Problem(error)
        } catch {
            return Outcome(end: refused(Self.refusal(error).problem), balance: balance)
        }
        return Outcome(end: end, balance: draft.balance, changes: draft.changes)
    }

    private static func refusal(_ error: any Error) -> Refusal {
        error as? Refusal
            ?? Refusal(.mutatorFailed, "Fix the records of the function: they threw \(error).")
    }
}

/// The changes of records of a call, with the rules for records at that time.
struct CallRecording: Sendable {
    let changes: CallRecords
    let sync: SyncCommands

    /// The rows that the changes read.
    func keys(_ account: Identifier) -> [Key] { [.account(account), .feed(account)] }

    /// Decides on the changes of a call that ends.
    ///
    /// - Throws: See ``CallRecords/outcome(of:_:_:_:_:_:_:)``.
    func outcome(
        of call: OperationPosition,
        _ operation: Identifier,
        _ end: CallEnd,
        _ balance: BalanceRow,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> CallRecords.Outcome {
        try changes.outcome(of: call, operation, end, balance, loaded, reader, sync)
    }
}

extension RunningCall {
    /// Returns the changes of records for the end of its run; `nil` if there are none.
    ///
    /// If they are refused, the call fails without a charge; or, if its reader may have seen parts,
    /// as a call that is cut short.
    func records(of prepared: PreparedCall, after end: RunEnd) async -> CallRecords? {
        guard let records = prepared.records, case .made(let output, _, _) = end else { return nil }
        return await CallRecords(records, of: output, for: call.account) { [self] problem in
            guard sharedRun.log.progress.parts > 0 else { return .failed(problem) }
            return self.end(.cut(problem, wasSent: true)) ?? .failed(problem)
        }
    }
}

extension PushDraft {
    /// Runs mutations of the server as one change.
    ///
    /// - Throws: ``Refusal`` for changes that are refused or exceed a limit, an
    ///   ``IncompleteIndex``, or the storage's error. Nothing was changed then.
    fileprivate mutating func run(
        _ mutations: [any RecordMutation],
        as operation: Identifier
    ) throws {
        guard mutations.count <= CallLimits.recordMutations else {
            throw Refusal(
                .invalidContent,
                "Record at most \(CallLimits.recordMutations) mutations per call."
            )
        }
        try apply(mutations, as: operation) { records, bytes throws(Refusal) in
            guard records <= CallLimits.changedRecords, bytes <= CallLimits.changedBytes else {
                throw Refusal(
                    .recordTooLarge,
                    """
                    Change at most \(CallLimits.changedRecords) records of \
                    \(CallLimits.changedBytes) bytes in all per call.
                    """
                )
            }
        }
    }
}
