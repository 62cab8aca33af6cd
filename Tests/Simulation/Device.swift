import OrderedCollections
import Sanguine
import SanguineModel

/// A bug that is planted in a device, to show that the simulation finds it.
package enum PlantedBug: String, CaseIterable, Sendable {
    /// An operation leaves the replay when it is acknowledged, not when the base contains it.
    case settlesOnAcknowledgement
    /// A base is adopted even if it may or may not contain operations that were sent.
    case adoptsWhateverComes
    /// Sent operations are missing from the disk.
    case forgetsWhatIsSent
    /// Unanswered operations are resent under new ids.
    case sendsUnderAnotherId
    /// A refusal also removes later operations.
    case rollsBackWhatFollows
    /// Operations are sent for any user who is signed in.
    case sendsForAnybody
    /// The device mistakes the numbers of a restored copy for those of the lost history.
    case ignoresEpochs
    /// An acknowledgement is stored without the epoch of its number.
    case forgetsEpochOfAcknowledgement
    /// The second version of the app declares no default for its new member.
    case lacksDefaults
    /// The first version of the app stores records without the members that it does not know.
    case dropsUnknownMembers
    /// A launch rewrites operations, without the arguments that the version does not know.
    case rewritesOperations
    /// A change of one member writes all of them.
    case writesWholeRecords
}

/// The data on a device's disk, which outlives the process.
struct Disk {
    struct Row {
        var owner: Identifier
        var operation: Replay.Operation
        var item: OutboxState.Item
        var name: String
        var arguments: JSONValue
        /// The version of the app that runs it; a different version may have made it.
        var version: Int
    }

    struct Mirror: RecordSource {
        var position: Int64 = 0
        /// The authority's horizon of forgotten deletions when the base was last read.
        var horizon: Int64 = 0
        /// The epoch of these numbers, or `nil` before anything was read.
        var epoch: Epoch?
        var records: [RecordKey: RecordValue] = [:]
        /// The records that a reset has not mentioned yet.
        var doomed: Set<RecordKey> = []

        func record(_ key: RecordKey) -> SourcedRecord? { records[key].map { SourcedRecord($0) } }

        func ids(
            in collection: String,
            where field: String,
            is value: JSONValue,
            limit: Int
        )
            -> [RecordID]
        {
            records.filter { $0.key.collection == collection && $0.value[field] == value }
                .map(\.key.id).sorted().prefix(limit).map { $0 }
        }
    }

    var lastSequence: Int64 = 0
    var outbox: [Int64: Row] = [:]
    /// The sequence number of each operation ever accepted.
    var sequences: [Identifier: Int64] = [:]
    /// The data of the signed-in account; removed when it signs out.
    var mirror = Mirror()
    var account: Identifier?

    /// Returns the phase of an operation, or `nil` if it is no longer in the outbox.
    func phase(of id: Identifier) -> OutboxState.Phase? {
        sequences[id].flatMap { outbox[$0]?.item.phase }
    }
}

/// Thrown when the process dies.
struct Death: Error {}

/// One device: the shell's sequence of steps around ``SyncState``, with dictionaries as its disk.
struct Device {
    /// The parameters of a pull.
    struct Question {
        let since: Int64
        let horizon: Int64
        let epoch: Epoch?
        /// The operations that may or may not have been applied.
        let asked: [Int64: Identifier]
    }

    let number: Int
    var disk = Disk()
    /// The state of the process, or `nil` while it is dead or no user is signed in.
    var state: SyncState?
    /// The number of the process: answers to an earlier process are dropped.
    var process = 0
    /// Whether it should pull.
    var wantsPull = false
    var isPulling = false
    /// The position of the live connection, or `nil` if there is none.
    var live: Int64?
    /// The ids that a planted bug gave to resent operations.
    private var aliases: [Identifier: Identifier] = [:]
    /// The step at which a sign-out last discarded the base.
    var emptied = 0
    let bug: PlantedBug?
    /// The version of the app that is installed.
    var version: SimulatedVersion
    /// The number of operations of another version that launches have found, and how many of these
    /// the launched version does not know.
    private(set) var found = (ofOther: 0, unknown: 0)
    /// Returns whether the device dies at this step.
    var dies: () -> Bool = { false }

    init(number: Int, version: Int, bug: PlantedBug?) {
        self.number = number
        self.bug = bug
        self.version = SimulatedVersion(number: version, bug: bug)
    }

    /// The device id in pushes.
    var id: String { "device-of-the-simulation-\(number)" }

    /// A summary of its state, for failure messages.
    var summary: String {
        let items = state?.outbox.items.values.map { "\($0.sequence) \($0.phase)" } ?? []
        return """
            position \(disk.mirror.position), pulls \(isPulling)/\(wantsPull), complete \
            \(state?.isComplete == true), outbox \(items)
            """
    }

    // MARK: - Process and session

    mutating func start() throws {
        process += 1
        state = nil
        live = nil
        isPulling = false
        guard let account = disk.account else { return }
        let outbox = OutboxState(limit: 1_000, [.record: .init(operations: 3, sends: 1)])
        var state = SyncState(
            schema: version.schema,
            outbox: outbox,
            position: disk.mirror.position,
            horizon: disk.mirror.horizon,
            heldLimit: 1_000
        )
        if let epoch = disk.mirror.epoch { state.outbox.enter(epoch) }
        try readOperations()
        for row in disk.outbox.values.sorted(by: { $0.item.sequence < $1.item.sequence })
        where row.owner == account || bug == .sendsForAnybody {
            let actions = try state.add(row.operation, as: row.item, over: disk.mirror)
            write(actions.steps)
        }
        self.state = state
        wantsPull = true
    }

    /// Converts operations that another version has made to the current version.
    private mutating func readOperations() throws {
        let schema = version.schema
        for (sequence, row) in disk.outbox where row.version != version.number {
            var mutation: any RecordMutation = UnknownSheetMutation(lane: row.item.lane)
            if let type = schema.mutation(row.name) {
                mutation = try StoredForm.arguments.decode(type, from: row.arguments)
                if bug == .rewritesOperations {
                    disk.outbox[sequence]?.arguments = try JSONValue(encoding: mutation)
                }
            } else {
                found.unknown += 1
            }
            found.ofOther += 1
            disk.outbox[sequence]?.version = version.number
            disk.outbox[sequence]?.operation = Replay.Operation(
                sequence: sequence,
                id: row.item.id,
                mutation: mutation
            )
        }
    }

    mutating func die() {
        state = nil
        live = nil
    }

    mutating func signOut() throws {
        disk.mirror = Disk.Mirror()
        disk.account = nil
        try start()
    }

    mutating func signIn(_ account: Identifier) throws {
        disk.account = account
        try start()
    }

    // MARK: - Operations

    /// Performs an operation as `perform` does: rehearses it, stores it and shows it.
    ///
    /// - Returns: The id, or `nil` if the operation does not apply.
    mutating func perform(_ mutation: some RecordMutation, id: Identifier) throws -> Identifier? {
        guard let account = disk.account, var state else { return nil }
        let sequence = disk.lastSequence + 1
        let dryRunResult: Replay.DryRun
        do {
            dryRunResult = try state.replay.dryRun(mutation, id: id, over: disk.mirror)
        } catch is Refusal {
            return nil
        }
        let operation = Replay.Operation(sequence: sequence, id: id, mutation: mutation)
        try mayDie()
        let item = OutboxState.Item(id: id, sequence: sequence, lane: mutation.lane)
        disk.lastSequence = sequence
        disk.sequences[id] = sequence
        disk.outbox[sequence] = Disk.Row(
            owner: account,
            operation: operation,
            item: item,
            name: type(of: mutation).name,
            arguments: try JSONValue(encoding: mutation),
            version: version.number
        )
        _ = try state.add(operation, as: item, dryRun: dryRunResult, over: disk.mirror)
        self.state = state
        return id
    }

    /// Returns the next push, if there is one.
    mutating func push() throws -> (send: UInt64, request: PushRequest)? {
        guard let (send, records) = state?.outbox.startSend() else { return nil }
        var operations: [PushedOperation] = []
        for sequence in send.sequences {
            guard let row = disk.outbox[sequence] else { continue }
            operations.append(
                PushedOperation(
                    id: row.item.id,
                    sequence: sequence,
                    lane: row.item.lane,
                    mutator: row.name,
                    arguments: row.arguments
                )
            )
        }
        write(records)
        try mayDie()
        if bug == .sendsUnderAnotherId {
            for index in operations.indices where isSentBefore(operations[index].sequence) {
                let old = operations[index].id
                let moment = Timestamp(millisecondsSince1970: old.moment.millisecondsSince1970 + 1)
                operations[index].id = Identifier(at: moment)
                aliases[operations[index].id] = old
            }
        }
        return (send.number, PushRequest(device: id, operations: operations))
    }

    private func isSentBefore(_ sequence: Int64) -> Bool {
        state?.outbox.items[sequence]?.outcomeUnknown == true
    }

    mutating func pushLanded(_ send: UInt64, _ answer: PushAnswer, of epoch: Epoch?) throws {
        var answer = answer
        for index in answer.results.indices {
            let result = answer.results[index]
            let id = aliases[result.id] ?? result.id
            answer.results[index].id = id
            guard let problem = result.problem, problem.code == .mutatorUnknown else { continue }
            // It waits for the authority's deployment.
            answer.results[index] = PushResult(id: id, status: .unknown, head: 0, problem: problem)
        }
        let isIgnored = bug == .ignoresEpochs || bug == .forgetsEpochOfAcknowledgement
        let epoch = isIgnored ? nil : epoch
        guard var actions = state?.pushCompleted(send, answer, epoch: epoch, over: disk.mirror)
        else {
            return
        }
        if bug == .settlesOnAcknowledgement, let head = state?.outbox.wantedHead,
            actions.adopt == nil
        {
            let nothing = PullAnswer(changes: [], next: head, head: head, hasMore: false)
            actions.adopt = .init(nothing, since: disk.mirror.position)
        }
        if bug == .rollsBackWhatFollows {
            for case .refused(let sequence, _) in actions.steps {
                for row in disk.outbox.values
                where row.item.sequence > sequence && state?.outbox.items[row.item.sequence] != nil
                {
                    if let more = try state?.discard(row.item.sequence, over: disk.mirror) {
                        actions.steps += more.steps
                    }
                }
            }
        }
        try perform(actions)
    }

    mutating func pushFailed(_ send: UInt64, wasSent: Bool) {
        _ = state?.outbox.fail(send, .retry, wasSent: wasSent)
    }

    mutating func wake() { state?.outbox.wake() }

    /// Removes a refused operation from the tray.
    mutating func emptyTray() throws {
        guard let refused = state?.outbox.items.values.first(where: \.isRefused) else { return }
        if let actions = try state?.discard(refused.sequence, over: disk.mirror) {
            try perform(actions)
        }
    }

    /// The first operation that was certainly not sent.
    var firstUnsent: Identifier? { state?.outbox.items.values.first(where: \.isUnsent)?.id }

    /// Withdraws such an operation.
    mutating func withdraw(_ id: Identifier) throws {
        guard let item = state?.outbox.items.values.first(where: { $0.id == id }),
            state?.outbox.unsent(item.kind, in: item.lane).contains(item.sequence) == true,
            let actions = try state?.discard(item.sequence, over: disk.mirror)
        else { return }
        try perform(actions)
    }

    // MARK: - Feed

    /// Returns the parameters of the next pull.
    mutating func pull() -> Question? {
        guard let state, wantsPull, !isPulling else { return nil }
        wantsPull = false
        isPulling = true
        let asked = state.outbox.unresolved.compactMap { sequence in
            state.outbox.items[sequence].map { (sequence, $0.id) }
        }
        return Question(
            since: state.pullPosition,
            horizon: state.pullHorizon,
            epoch: bug == .ignoresEpochs || state.pullPosition == 0 ? nil : state.pullEpoch,
            asked: Dictionary(asked) { first, _ in first }
        )
    }

    mutating func pullLanded(_ answer: PullAnswer, to question: Question) throws {
        isPulling = false
        let asked = Set(question.asked.keys)
        try receive(SyncState.FeedBatch(answer, since: question.since, asked: asked))
        if answer.hasMore { wantsPull = true }
    }

    mutating func pullFailed() {
        isPulling = false
        wantsPull = true
    }

    mutating func receive(_ batch: SyncState.FeedBatch) throws {
        var batch = batch
        if bug == .ignoresEpochs { batch.epoch = nil }
        if bug == .adoptsWhateverComes, let unresolved = state?.outbox.unresolved {
            let answer = PullAnswer(
                changes: batch.changes,
                next: batch.next,
                head: batch.head,
                hasMore: false,
                reset: batch.isReset,
                epoch: batch.epoch
            )
            batch = .init(answer, since: batch.since, asked: Set(unresolved))
        }
        guard let actions = state?.received(batch, over: disk.mirror) else { return }
        try perform(actions)
    }

    // MARK: - Steps

    // In the order that SyncState requires; the process may die between any two.
    private mutating func perform(_ actions: SyncState.Actions) throws {
        var actions = actions
        while true {
            write(actions.steps)
            try mayDie()
            if actions.mustPull { wantsPull = true }
            guard let batch = actions.adopt else { return }
            adopt(batch)
            try mayDie()
            guard let next = try state?.adopted(batch, over: disk.mirror) else { return }
            actions = next
        }
    }

    // One transaction on the mirror.
    private mutating func adopt(_ batch: SyncState.FeedBatch) {
        if batch.isReset { disk.mirror.doomed = Set(disk.mirror.records.keys) }
        for change in batch.changes {
            let key = RecordKey(change.collection, change.id)
            disk.mirror.doomed.remove(key)
            if !change.deleted, case .object(let fields) = change.value {
                disk.mirror.records[key] = RecordValue(fields)
            } else {
                disk.mirror.records[key] = nil
            }
        }
        disk.mirror.position = batch.next
        let isOther = batch.epoch.map { $0 != disk.mirror.epoch } ?? false
        disk.mirror.horizon = isOther ? batch.horizon : max(disk.mirror.horizon, batch.horizon)
        disk.mirror.epoch = batch.epoch ?? disk.mirror.epoch
        if batch.next >= batch.head {
            for key in disk.mirror.doomed { disk.mirror.records[key] = nil }
            disk.mirror.doomed = []
        }
    }

    private mutating func write(_ steps: [OutboxState.Step]) {
        for step in steps {
            switch step {
            case .sending(let sequences):
                for sequence in sequences {
                    disk.outbox[sequence]?.item.phase = .sending(send: 0)
                    if bug == .forgetsWhatIsSent { disk.outbox[sequence] = nil }
                }
            case .reopened(let sequences):
                for sequence in sequences {
                    disk.outbox[sequence]?.item.phase = .sending(send: 0)
                    disk.outbox[sequence]?.item.epoch = nil
                }
            case .acknowledged(let sequence, let head, let epoch):
                disk.outbox[sequence]?.item.phase = .acknowledged(head: head)
                disk.outbox[sequence]?.item.epoch = epoch
            case .deferred: break  // It may still have been applied.
            case .refused(let sequence, let problem):
                disk.outbox[sequence]?.item.phase = .refused(problem)
            case .removed(let sequences):
                for sequence in sequences { disk.outbox[sequence] = nil }
            }
        }
    }

    private func mayDie() throws { if dies() { throw Death() } }
}
