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

    /// Makes the changes of a call that ends.
    ///
    /// - Parameters:
    ///   - completed: The call.
    ///   - operation: The id of its operation, which the mutations see.
    ///   - end: Its end.
    ///   - draft: The changes of the account's records so far.
    /// - Returns: The end: a failure if the changes were refused.
    /// - Throws: `overloaded` while an index is incomplete, or the storage's error: the call ends
    ///   later.
    fileprivate func apply(
        _ completed: CompletedCall,
        _ operation: Identifier,
        _ end: CallEnd,
        to draft: inout PushDraft
    ) throws(Problem) -> CallEnd {
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
            return refused(Self.refusal(error).problem)
        }
        return end
    }

    private static func refusal(_ error: any Error) -> Refusal {
        error as? Refusal
            ?? Refusal(.mutatorFailed, "Fix the records of the function: they threw \(error).")
    }
}

/// The changes of records at the end of a call, with the rules for records at that time: those of
/// its function, and the end of its answer in a thread.
struct CallRecording: Sendable {
    /// The changes of the function; `nil` for none.
    let changes: CallRecords?
    /// The end of the answer; `nil` if it is not known.
    let message: MessageEnd?
    let sync: SyncCommands

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

    /// Returns the changes of a call; `nil` if it makes none.
    init?(_ changes: CallRecords?, _ message: MessageEnd?, isInThread: Bool, _ sync: SyncCommands) {
        guard changes != nil || isInThread else { return nil }
        self.changes = changes
        self.message = message
        self.sync = sync
    }

    /// The rows that the changes read.
    func keys(_ account: Identifier) -> [Key] { [.account(account), .feed(account)] }

    /// Decides on the changes of a call that ends.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - end: Its end.
    ///   - most: The largest charge.
    ///   - balance: The balance of the account.
    ///   - begun: The changes so far; `nil` if there are none.
    ///   - loaded: The account and its feed.
    ///   - reader: The reader of records.
    /// - Returns: The changes.
    /// - Throws: `overloaded` while an index is incomplete, or the storage's error: the call ends
    ///   later.
    func outcome(
        of call: AcceptedCall,
        _ end: CallEnd,
        atMost most: Int64,
        _ balance: BalanceRow,
        after begun: PushDraft? = nil,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> Outcome {
        // A deleted account has no records.
        guard let row = loaded.account(call.account), row.state == .active else {
            return Outcome(end: end, balance: balance)
        }
        var end = end
        var draft: PushDraft
        if let begun { draft = begun } else { draft = try sync.begin(call.account, loaded, reader) }
        if let changes, case .succeeded = end {
            let completed = CompletedCall(
                key: call.key,
                account: row.profile(at: sync.now),
                at: sync.now
            )
            end = try changes.apply(completed, call.operation, end, to: &draft)
        }
        if call.isInThread {
            let (state, message, charged) = end.message(message, atMost: most)
            try draft.end(call.position, as: state, message, charged: charged, at: sync.now)
        }
        return Outcome(end: end, balance: draft.balance, changes: draft.changes)
    }
}

extension CallEnd {
    /// Returns the state of the answer in a thread, and its charge.
    fileprivate func message(
        _ made: MessageEnd?,
        atMost most: Int64
    ) -> (state: ChatMessage.State, MessageEnd, charged: Int64) {
        switch self {
        case .succeeded(let charge, _):
            return (.complete, made ?? MessageEnd(), min(max(0, charge), most))
        case .cut(let charge, let takesQuota, let problem):
            let charged = min(max(0, charge), most)
            let hasText = made?.content?.text.isEmpty == false
            return (
                charged > 0 || takesQuota || hasText ? .cut : .failed,
                MessageEnd(content: made?.content, finishReason: problem.code.rawValue),
                charged
            )
        case .failed(let problem):
            return (.failed, MessageEnd(finishReason: problem.code.rawValue), 0)
        }
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
