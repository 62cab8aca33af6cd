import Foundation
import SanguineModel

/// The commands of records; a whole push is one command.
struct SyncCommands: Sendable {
    let settings: AuthoritySettings
    let now: Timestamp
    /// The indexes that operations must not use.
    var incomplete: Set<IndexName> = []

    /// Decides the operations in order, each on top of the changes of the previous ones.
    ///
    /// A refused operation changes nothing and does not stop the others. An operation with an
    /// unknown mutation or collection stays undecided, as do the later ones of its lane: a later
    /// server decides them. The same applies to an operation that looks records up by an index that
    /// is being built. If no operation was decided, the push is refused with `overloaded`, so that
    /// the client retries it.
    func push(_ account: Identifier, _ batch: PushBatch) -> Command<PushAnswer> {
        let keys = batch.operations.map { Key.operation(account, key: $0.key) }
        return Command(
            keys: [.balance(account), .feed(account)] + keys,
            reading: {
                loaded,
                reader throws(Problem) in
                var draft = try begin(account, loaded, reader)
                var known: [String: OperationRow] = [:]
                for row in loaded.operations { known[row.key] = row }
                var results: [Identifier: PushResult] = [:]
                var waiting: Set<String> = []
                for operation in batch.operations {
                    let before = known[operation.key]
                    guard before != nil || !waiting.contains(operation.lane) else {
                        // It follows an operation that only a later server can decide.
                        results[operation.id] = PushResult(id: operation.id, status: .unknown)
                        continue
                    }
                    let result = try draft.decide(operation, before)
                    let isEarly = result.problem?.code.awaitsDeployment == true
                    if before == nil, isEarly || result.status == .unknown {
                        waiting.insert(operation.lane)
                    }
                    results[operation.id] = result
                }
                if let index = draft.incomplete,
                    results.values.allSatisfy({ $0.status == .unknown })
                {
                    throw .incomplete(index)
                }
                try draft.dropTombstones()
                let answer = PushAnswer(
                    results: batch.ids.compactMap { results[$0] },
                    head: draft.balance.head
                )
                return Decision(answer, changes: draft.changes)
            }
        )
    }

    /// Changes records of an account without an operation; `nil` deletes.
    ///
    /// If one of the changes is refused, none of them is made.
    func put(
        _ account: Identifier,
        _ changes: [RecordKey: RecordValue?]
    ) -> Command<Result<Void, Refusal>> {
        Command(
            keys: [.balance(account), .feed(account)],
            reading: {
                loaded,
                reader throws(Problem) in
                var draft = try begin(account, loaded, reader)
                do {
                    try draft.put(changes)
                    try draft.dropTombstones()
                } catch let refusal as Refusal {
                    return Decision(.failure(refusal))
                } catch {
                    throw Problem(.internalFault, "Change the records again.")
                }
                return Decision(.success(()), changes: draft.changes)
            }
        )
    }

    /// Begins the changes of an account's records.
    ///
    /// - Throws: `not_found` for an account without a balance.
    func begin(
        _ account: Identifier,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> PushDraft {
        guard let balance = loaded.balance(account) else { throw .noAccount }
        return PushDraft(
            balance: balance,
            feed: loaded.feed(account) ?? FeedRow(account: account),
            source: PushSource(
                account: account,
                schema: settings.schema,
                reader: reader,
                incomplete: incomplete
            ),
            settings: settings,
            now: now
        )
    }
}

/// The changes of a push so far.
///
/// Invariants:
///
/// 1. The numbers of the changed records are consecutive, from the loaded head to the current one.
/// 2. A refused operation has changed only its own row.
/// 3. The feed's row counts the account's records and tombstones as they will be stored. If there
///    were at most ``AuthoritySettings/tombstonesPerAccount`` before, there are no more afterwards.
struct PushDraft {
    private(set) var balance: BalanceRow
    /// The first index that an operation needed while it is being built.
    private(set) var incomplete: IndexName?
    private var feed: FeedRow
    private var source: PushSource
    private var stored: [Change] = []
    /// The number of changes of records.
    private var changed = 0
    private var lastRefusal: (problem: Problem, body: [UInt8])?
    private let settings: AuthoritySettings
    private let now: Timestamp
    /// Whether the running changes are made by the user, or by a function.
    private var isByUser = true
    private var tallies: RecordTallies
    /// The entries of unique groups that were added and removed so far.
    private var uniques: (added: Set<IndexEntry>, removed: Set<IndexEntry>) = ([], [])
    /// The growth of the lists that name the authors that the account follows.
    private var follows: [IndexList: Int] = [:]

    init(
        balance: BalanceRow,
        feed: FeedRow,
        source: PushSource,
        settings: AuthoritySettings,
        now: Timestamp
    ) {
        self.balance = balance
        self.feed = feed
        self.source = source
        self.settings = settings
        self.now = now
        tallies = RecordTallies(settings.schema)
    }

    /// The number of the account's threads.
    var threads: Int64 { feed.threads }

    /// The changes to store, in order.
    var changes: [Change] {
        changed > 0
            ? stored + tallies.changes + [.put(.feed(feed)), .put(.balance(balance))] : stored
    }

    /// Changes records without an operation; `nil` deletes.
    ///
    /// - Throws: ``Refusal`` for changes that no operation could make, or the storage's error.
    mutating func put(_ changes: [RecordKey: RecordValue?]) throws {
        var changes = changes
        for case (let key, let value?) in changes {
            do {
                changes[key] = try value.put(over: source.record(key)?.value)
            } catch let error as EncodingError {
                throw Refusal.unstorable(key, error)
            }
        }
        apply(try edits(changes))
    }

    /// Returns a text of a stored record, which need not match its type; `nil` if there is none.
    ///
    /// - Throws: ``Refusal`` if the record is not an object, or the storage's error.
    func string(_ member: String, of key: RecordKey) throws -> String? {
        guard let value = try source.record(key)?.value else { return nil }
        do {
            return try value.fields()[member]?.string
        } catch {
            throw Refusal.unstorable(key, error)
        }
    }

    /// Replaces members of a stored record, which need not match its type.
    ///
    /// The record may exceed the limits of the account.
    ///
    /// - Throws: ``Refusal`` if the record cannot be stored, or the storage's error.
    mutating func replace(_ members: [String: JSONValue], of key: RecordKey) throws {
        guard var value = try source.record(key)?.value else { return }
        do {
            for (name, member) in members { value = try value.setting(name, to: member) }
        } catch {
            throw Refusal.unstorable(key, error)
        }
        apply(try edits([key: value], evenIfFull: true))
    }

    /// Runs mutations without an operation of a device, as one change.
    ///
    /// - Parameters:
    ///   - mutations: The mutations.
    ///   - operation: The id that they see as that of their operation.
    ///   - check: Checks the number of records, and the bytes of their new values.
    /// - Throws: The error of a mutation or of the check, or the storage's error. Nothing was
    ///   changed then.
    mutating func apply(
        _ mutations: [any RecordMutation],
        as operation: Identifier,
        check: (_ records: Int, _ bytes: Int) throws(Refusal) -> Void
    ) throws {
        let context = OperationContext(id: operation)
        var records = Records(from: source, schema: source.schema, operation: context)
        for mutation in mutations { try records.run(mutation) }
        let edits = try edits(records.changes)
        try check(edits.count, edits.reduce(0) { $0 + ($1.value?.count ?? 0) })
        apply(edits)
    }

    /// Runs mutations of the server itself as one change.
    ///
    /// - Parameters:
    ///   - mutations: The mutations.
    ///   - operation: The id that they see as that of their operation.
    ///   - isUnlimited: Whether records may exceed the limits of the account. Default: no.
    /// - Throws: The error of a mutation, or the storage's error. Nothing was changed then.
    mutating func write(
        _ mutations: [any SystemMutation],
        as operation: Identifier,
        evenIfFull isUnlimited: Bool = false
    ) throws {
        isByUser = false
        defer { isByUser = true }
        let context = OperationContext(id: operation)
        var records = Records(from: source, schema: source.schema, operation: context)
        for mutation in mutations { try records.run(mutation) }
        apply(try edits(records.changes, evenIfFull: isUnlimited))
    }

    /// Drops the oldest tombstones beyond the account's limit.
    ///
    /// An account that has far more, after a setting was lowered, loses them over several pushes,
    /// so that the cost of a push stays proportional to its changes.
    ///
    /// - Throws: the storage's error; the driver then aborts the command.
    mutating func dropTombstones() throws(Problem) {
        let surplus = feed.tombstones - max(0, settings.tombstonesPerAccount)
        guard changed > 0, surplus > 0 else { return }
        let oldest: [RecordRow]
        do {
            oldest = try source.tombstones(limit: Int(min(surplus, 2 * Int64(changed))))
        } catch {
            throw Problem(.internalFault, "Send the operations again: they take effect once.")
        }
        for row in oldest {
            feed.drop(row)
            stored.append(.delete(.record(row.name)))
        }
    }

    /// Decides one operation.
    ///
    /// - Throws: the storage's error; the driver then aborts the command.
    mutating func decide(
        _ operation: PushBatch.Operation,
        _ known: OperationRow?
    ) throws(Problem) -> PushResult {
        if let known { return replay(operation, known) }
        switch edits(of: operation) {
        case .success(let edits):
            apply(edits)
            // A call that begins the thread may still be on its way.
            if edits.isEmpty, let deletion = try? operation.mutation.get() as? DeleteThread {
                forget(source.name(of: deletion.id.ofThread, in: ChatThread.collection))
            }
            remember(operation, .pushed(head: balance.head, refusal: nil))
            return PushResult(id: operation.id, status: .applied, head: balance.head)
        case .failure(let refusal as Refusal):
            let problem = refusal.brief.problem
            if !refusal.code.awaitsDeployment {
                remember(operation, .pushed(head: balance.head, refusal: encoded(problem)))
            }
            return PushResult(id: operation.id, status: .refused, problem: problem)
        case .failure(let index as IncompleteIndex):
            incomplete = incomplete ?? index.name
            return PushResult(id: operation.id, status: .unknown)
        case .failure(let problem as Problem):
            throw problem
        case .failure:
            throw Problem(.internalFault, "Send the operations again: they take effect once.")
        }
    }

    private func replay(_ operation: PushBatch.Operation, _ row: OperationRow) -> PushResult {
        guard row.fingerprint == operation.fingerprint else {
            return PushResult(
                id: operation.id,
                status: .refused,
                problem: Problem(
                    .idempotencyMismatch,
                    "Use a new id: this one was used for an operation with different content."
                )
            )
        }
        let result = row.result(operation.id)
        return result.status == .applied
            ? PushResult(id: operation.id, status: .replayed, head: result.head) : result
    }

    /// Returns the problem as JSON.
    ///
    /// Operations of a push are often refused for the same reason, and encoding the refusal takes
    /// longer than the rest of the decision.
    private mutating func encoded(_ problem: Problem) -> [UInt8] {
        if let last = lastRefusal, last.problem == problem { return last.body }
        let body = ResponseEncoder.encode(problem)
        lastRefusal = (problem, body)
        return body
    }

    private mutating func remember(
        _ operation: PushBatch.Operation,
        _ state: OperationRow.State
    ) {
        let row = OperationRow(
            account: balance.account,
            key: operation.key,
            fingerprint: operation.fingerprint,
            state: state,
            at: now
        )
        stored.append(.put(.operation(row)))
    }

    // MARK: - Records

    /// The effect of an operation on one record.
    private struct Edit {
        let name: RecordName
        let old: RecordRow?
        /// The new value, or `nil` for a deletion.
        let value: [UInt8]?
        let unindexed: Set<IndexEntry>
        let indexed: Set<IndexEntry>
        /// The members before and afterwards, if the collection counts in others.
        var counted: (old: RecordFields?, new: RecordFields?)?
    }

    private func edits(of operation: PushBatch.Operation) -> Result<[Edit], any Error> {
        Result {
            var records = Records(
                from: source,
                schema: source.schema,
                operation: OperationContext(id: operation.id)
            )
            try records.run(try operation.mutation.get())
            return try edits(records.changes)
        }
    }

    private func edits(
        _ changes: [RecordKey: RecordValue?],
        evenIfFull isUnlimited: Bool = false
    ) throws -> [Edit] {
        var edits: [Edit] = []
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) {
            if let edit = try edit(key, to: value) { edits.append(edit) }
        }
        if !isUnlimited {
            try checkRoom(for: edits)
            try checkFollows(edits)
        }
        try checkUnique(edits)
        return edits
    }

    /// Refuses edits with which the account would follow more than a timeline can list.
    private func checkFollows(_ edits: [Edit]) throws {
        let growth = edits.reduce(into: [:]) { growth, edit in
            growth.merge(followGrowth(edit), uniquingKeysWith: +)
        }
        let limit = WireLimits.followedAuthors
        for (list, number) in growth where number > 0 {
            let stored = try source.entryCount(in: list, limit: limit + 1)
            guard stored + follows[list, default: 0] + number <= limit else {
                throw Refusal(
                    .storageFull,
                    """
                    Delete records of '\(list.collection)' first: an account may have at most \
                    \(limit), so that its timeline is complete.
                    """
                )
            }
        }
    }

    /// Returns the number of entries by which an edit changes lists that timelines follow.
    private func followGrowth(_ edit: Edit) -> [IndexList: Int] {
        let fields = source.schema.followedMembers(of: edit.name.collection)
        guard !fields.isEmpty else { return [:] }
        func count(_ entries: Set<IndexEntry>, _ step: Int, in growth: inout [IndexList: Int]) {
            for entry in entries
            where entry.list.scope == balance.account && fields.contains(entry.list.field) {
                growth[entry.list, default: 0] += step
            }
        }
        var growth: [IndexList: Int] = [:]
        count(edit.indexed, 1, in: &growth)
        count(edit.unindexed, -1, in: &growth)
        return growth
    }

    /// Refuses edits that would repeat the values of a unique group.
    private func checkUnique(_ edits: [Edit]) throws {
        let removed = edits.reduce(into: uniques.removed) { $0.formUnion($1.unindexed) }
        var added = uniques.added.subtracting(removed)
        for edit in edits {
            for entry in edit.indexed where StoredIndex.isUnique(entry.list) {
                var holders = try source.holders(of: entry).map {
                    IndexEntry(entry.list, entry.key, $0)
                }
                holders.removeAll { removed.contains($0) && !added.contains($0) }
                let others = holders + added.filter { $0.list == entry.list && $0.key == entry.key }
                guard others.allSatisfy({ $0.id == entry.id }) else {
                    let members = entry.list.field.prefix { $0 != "~" }
                    throw Refusal(
                        .recordExists,
                        """
                        Use the record of '\(entry.list.collection)' with the same \
                        '\(members)': there may be only one.
                        """
                    )
                }
                added.insert(entry)
            }
        }
    }

    /// Only growth is refused, so deletions always succeed.
    private func checkRoom(for edits: [Edit]) throws(Refusal) {
        var (records, bytes) = (0 as Int64, 0 as Int64)
        for edit in edits {
            records += (edit.value == nil ? 0 : 1) - (edit.old?.isLive == true ? 1 : 0)
            bytes += Int64(edit.value?.count ?? 0) + RecordRow.overheadBytes
            bytes -= edit.old?.storedBytes ?? 0
        }
        let limit = settings.recordsPerAccount
        guard records <= 0 || feed.records + records <= limit else {
            throw Refusal(.storageFull, "Delete records first: at most \(limit) are allowed.")
        }
        guard bytes <= 0 || feed.bytes + bytes <= settings.bytesPerAccount else {
            throw Refusal(
                .storageFull,
                """
                Delete records first: they may take \(settings.bytesPerAccount) bytes in all. \
                Deleting a record frees its content at once, and the other \
                \(RecordRow.overheadBytes) bytes when the deletion is forgotten.
                """
            )
        }
    }

    private func edit(_ key: RecordKey, to value: RecordValue?) throws -> Edit? {
        guard let collection = source.schema.collection(key.collection) else {
            throw Refusal(.collectionUnknown, "Declare the collection '\(key.collection)' first.")
        }
        let name = source.name(of: key.id, in: collection)
        let old = try source.row(name)
        guard old == nil || old?.owner == balance.account else {
            throw Refusal(.notOwner, "Use a new id: '\(key)' was another account's until recently.")
        }
        var unindexed: Set<IndexEntry> = []
        var oldFields: RecordFields = [:]
        if let live = old?.liveFields {
            // A record that is not JSON was indexed without members, and can only be deleted.
            oldFields = live
            unindexed = collection.entries(of: key.id, owner: balance.account, oldFields)
        }
        guard let value else {
            guard old?.isLive == true else { return nil }
            var edit = Edit(name: name, old: old, value: nil, unindexed: unindexed, indexed: [])
            if !collection.counts.isEmpty { edit.counted = (oldFields, nil) }
            return edit
        }
        // `createdAt` is not the writer's, so it cannot choose a position in others' lists.
        let createdAt = old?.isLive == true ? old?.createdAt ?? now : now
        let (json, fields) = try Self.checked(
            key,
            value,
            createdAt: collection.isStamped ? createdAt : nil,
            owner: collection.owner.map { ($0, balance.account) }
        )
        if let old, old.isLive, old.value == json { return nil }
        let isNew = old?.isLive != true
        if isNew || fields != oldFields {
            try collection.checkReaders(of: key.id, fields, isNew: isNew)
        }
        // The server checked the files of its own records before.
        if isByUser { try checkFiles(fields, over: oldFields, in: collection) }
        let indexed = collection.entries(of: key.id, owner: balance.account, fields)
        var edit = Edit(
            name: name,
            old: old,
            value: json,
            unindexed: unindexed.subtracting(indexed),
            indexed: indexed.subtracting(unindexed)
        )
        if !collection.counts.isEmpty {
            let before = old?.isLive == true ? oldFields : nil
            edit.counted = (before, fields)
            try checkTargets(of: collection, from: before, to: fields)
        }
        return edit
    }

    /// Refuses a record that refers to a missing one in which it would be counted.
    private func checkTargets(
        of collection: RecordCollection,
        from old: RecordFields?,
        to new: RecordFields
    ) throws {
        for counter in collection.counts {
            guard let id = counter.target(new), id != counter.target(old) else { continue }
            let name = RecordName(counter.collection, in: nil, id)
            guard try source.row(name)?.isLive == true else {
                throw Refusal(
                    .notFound,
                    "Set '\(counter.by)' to the id of a record of '\(counter.collection)'."
                )
            }
        }
    }

    /// Refuses a record that names a file which its writer may not read: otherwise the hash of a
    /// file would be enough to read it.
    ///
    /// Names that the record had before are not checked again.
    private func checkFiles(
        _ fields: RecordFields,
        over old: RecordFields,
        in collection: RecordCollection
    ) throws {
        for member in collection.blobs.map(\.name) where fields[member] != old[member] {
            let (ids, others) = BlobField.ids(in: fields[member])
            let most = WireLimits.blobsPerRecord
            guard others == 0, ids.count <= most else {
                throw Refusal(
                    .invalidContent,
                    "Set '\(member)' to the id of a file, or to a list of at most \(most) of them."
                )
            }
            let known = Set(BlobField.ids(in: old[member]).ids)
            for id in Set(ids).subtracting(known).sorted() {
                guard let file = BlobID(id), try source.mayRead(file) else {
                    throw Refusal(
                        .invalidContent,
                        """
                        Upload the file '\(id.prefix(64))' first: '\(member)' names it, and this \
                        account may not read it.
                        """
                    )
                }
            }
        }
    }

    private static func checked(
        _ key: RecordKey,
        _ value: RecordValue,
        createdAt: Timestamp?,
        owner: (member: String, account: Identifier)?
    ) throws -> ([UInt8], RecordFields) {
        let fields: RecordFields
        let json: [UInt8]
        do {
            var value = value
            if let createdAt { value = try value.setting("createdAt", to: createdAt.json) }
            // Nor is the owner: no account can write in another one's name.
            if let owner {
                value = try value.setting(owner.member, to: .string(owner.account.description))
            }
            fields = try value.fields()
            json = Array(try value.json())
        } catch {
            throw error as? Refusal ?? .unstorable(key, error)
        }
        guard json.count <= WireLimits.recordBytes else {
            throw Refusal(
                .recordTooLarge,
                "Limit a record to \(WireLimits.recordBytes) bytes; blobs can be larger."
            )
        }
        return (json, fields)
    }

    /// Schedules the removal of a deleted thread's messages, and prevents calls from recreating it.
    private mutating func forget(_ deleted: RecordName) {
        guard deleted.isThread else { return }
        let account = balance.account
        stored.append(.put(ThreadRemoval(account: account, thread: deleted.id)))
        stored.append(.put(DeletedThread(account: account, thread: deleted.id, at: now)))
    }

    private mutating func apply(_ edits: [Edit]) {
        let through = balance.head + Int64(edits.count)
        for edit in edits {
            balance.head += 1
            let row = RecordRow(
                name: edit.name,
                owner: balance.account,
                seq: balance.head,
                through: through,
                deletedAt: edit.value == nil ? now : nil,
                value: edit.value ?? [],
                createdAt: edit.old?.isLive == true ? edit.old?.createdAt ?? now : now,
                updatedAt: now
            )
            feed.count(row, replacing: edit.old)
            source.set(row)
            stored += edit.unindexed.map(Change.unindex)
            stored.append(.put(.record(row)))
            stored += edit.indexed.map(Change.index)
            changed += 1
            if isByUser, edit.value == nil { forget(edit.name) }
            recordRelations(edit)
        }
    }

    /// Updates the tallies and the unique entries after an edit.
    private mutating func recordRelations(_ edit: Edit) {
        let name = edit.name
        if let (old, new) = edit.counted, let collection = source.schema.collection(name.collection)
        {
            // If the storage fails, it aborts the command.
            try? source.count(collection, from: old, to: new, in: &tallies)
        }
        if edit.value == nil { tallies.remove(name.id, of: name.collection) }
        follows.merge(followGrowth(edit), uniquingKeysWith: +)
        for entry in edit.unindexed where StoredIndex.isUnique(entry.list) {
            uniques.added.remove(entry)
            uniques.removed.insert(entry)
        }
        for entry in edit.indexed where StoredIndex.isUnique(entry.list) {
            uniques.removed.remove(entry)
            uniques.added.insert(entry)
        }
    }
}

extension RecordRow {
    /// Whether the record is not deleted.
    var isLive: Bool { deletedAt == nil }

    /// The members; `nil` for a deleted record, none for one that is not JSON.
    var liveFields: RecordFields? {
        isLive ? (try? RecordValue(json: Data(value)).fields()) ?? [:] : nil
    }
}

extension OperationRow {
    /// Returns the result of the operation, if it was pushed.
    func result(_ id: Identifier) -> PushResult {
        switch state {
        case .pushed(let head, nil): return PushResult(id: id, status: .applied, head: head)
        case .pushed(_, let body?):
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(body))
            return PushResult(
                id: id,
                status: .refused,
                problem: problem ?? Problem(.internalFault, "Send it again with another id.")
            )
        case .running, .done, .forgotten: return PushResult(id: id, status: .unknown)
        }
    }
}

extension Refusal {
    /// The refusal with its text shortened for storage.
    fileprivate var brief: Refusal {
        Refusal(code, detail.utf8.count <= 1_000 ? detail : String(detail.prefix(200)))
    }
}
