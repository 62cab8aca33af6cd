import HeapModule
package import SanguineModel

/// What the user sees of their records: *base ⊕ pending*.
///
/// The base is what the authority gave, and stays outside: each call is handed where it is read.
/// The pending operations are here, in the order of their sequence numbers, each with what it
/// changed when it was last run. A record's visible value is what the last of them made of it, or
/// the base.
///
/// Replaying is incremental. A change of the base, or of the list of operations, runs those
/// operations again that looked at a record whose value before them has changed, and no other:
/// one base change under a thousand pending operations runs the one or two that concern it.
///
/// An operation that no longer applies stays in the list and is left out of the view; when the base
/// changes so that it applies again, it is visible again.
///
/// Pure: no I/O of its own, no clock. Time for one event: O(operations run × log pending).
///
/// Invariants, checked in debug builds after each event:
///
/// 1. Operations are in ascending order of their sequence numbers, each once.
/// 2. `readers` has, for each record, exactly the operations that looked at it or changed it.
/// 3. The view equals what running all operations in order over the base would give.
package struct Replay {
    /// An operation that is not settled.
    package struct Operation {
        package fileprivate(set) var sequence: Int64
        package let context: OperationContext
        package let mutator: any RecordMutation

        package init(sequence: Int64, id: Identifier, mutator: any RecordMutation) {
            self.sequence = sequence
            context = OperationContext(id: id)
            self.mutator = mutator
        }
    }

    /// What an operation did behind all others, see ``rehearse(_:id:over:)``.
    package struct Rehearsal {
        fileprivate let entry: Entry

        /// What the operation does.
        package var mutator: any RecordMutation { entry.operation.mutator }
    }

    /// An operation with what it did when it was last run.
    fileprivate struct Entry {
        var operation: Operation
        var changes: [RecordKey: RecordValue?] = [:]
        var touched: Set<RecordKey> = []
        var lookups: Set<RecordLookup> = []
        var refusal: Refusal?
    }

    let schema: RecordSchema
    private var entries: [Int64: Entry] = [:]
    /// The sequence numbers, ascending.
    package private(set) var order: [Int64] = []
    /// Who looked at a record or changed it, ascending.
    private var readers: [RecordKey: [Int64]] = [:]
    /// Who looked for records of a collection by an index, ascending.
    private var seekers: [String: [Int64]] = [:]

    package init(schema: RecordSchema) { self.schema = schema }

    // MARK: - Reading

    /// How many operations are pending.
    package var count: Int { order.count }

    /// The visible value of a record.
    package func record(_ key: RecordKey, over base: some RecordSource) throws -> SourcedRecord? {
        try record(key, before: .max, over: base)
    }

    /// The ids of the visible records whose member has the value, ascending.
    package func ids(
        in collection: String,
        where field: String,
        is value: JSONValue,
        limit: Int,
        over base: some RecordSource
    ) throws -> [RecordID] {
        try View(replay: self, before: .max, base: base)
            .ids(in: collection, where: field, is: value, limit: limit)
    }

    /// The records of a collection that pending operations have changed, with what is visible now.
    package func changes(in collection: String) -> [RecordID: RecordValue?] {
        var changes: [RecordID: RecordValue?] = [:]
        for key in readers.keys where key.collection == collection {
            if let change = lastChange(of: key, before: .max) {
                changes.updateValue(change, forKey: key.id)
            }
        }
        return changes
    }

    /// Why an operation does not apply at present; `nil` if it does, or is not pending.
    package func refusal(of sequence: Int64) -> Refusal? { entries[sequence]?.refusal }

    /// For each record that an operation touched, the last one before it that touched it, too.
    ///
    /// That one in its turn comes after those before it.
    package func dependencies(of sequence: Int64) -> Set<Int64> {
        Set(
            touched(by: sequence).compactMap { key in
                readers[key].flatMap { $0[..<$0.partitioningIndex(of: sequence)].last }
            }
        )
    }

    /// The records that an operation looked at or changed.
    package func touched(by sequence: Int64) -> Set<RecordKey> { entries[sequence]?.touched ?? [] }

    // MARK: - Events

    /// Runs an operation over what is visible, without keeping it.
    ///
    /// - Parameters:
    ///   - mutator: What it does.
    ///   - id: The operation's id.
    ///   - base: The base.
    /// - Returns: What it did.
    /// - Throws: ``Refusal`` if it does not apply, or JSON cannot hold a record that it sets; what
    ///   the base threw.
    package func rehearse(
        _ mutator: any RecordMutation,
        id: Identifier,
        over base: some RecordSource
    ) throws -> Rehearsal {
        let operation = Operation(sequence: .max, id: id, mutator: mutator)
        let entry = try run(operation, over: base)
        if let refusal = entry.refusal { throw refusal }
        for case (let key, let value?) in entry.changes {
            do {
                _ = try value.json()
            } catch {
                throw error as? Refusal ?? Refusal.unstorable(key, error)
            }
        }
        return Rehearsal(entry: entry)
    }

    /// Takes in what was rehearsed over the same base, and under the same operations.
    ///
    /// - Parameters:
    ///   - rehearsal: What the operation did behind all others.
    ///   - sequence: The number that it was given since.
    ///   - base: The base.
    /// - Returns: The records whose visible value changed.
    /// - Throws: what the base threw.
    package mutating func add(
        _ rehearsal: Rehearsal,
        at sequence: Int64,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        var entry = rehearsal.entry
        entry.operation.sequence = sequence
        guard order.last.map({ $0 < sequence }) ?? true else {
            return try add(entry.operation, over: base)
        }
        order.append(sequence)
        entries[sequence] = entry
        link(entry)
        checkInvariants()
        return Set(entry.changes.keys)
    }

    /// Takes an operation in, at the place that its sequence number gives it.
    ///
    /// - Returns: The records whose visible value changed.
    package mutating func add(
        _ operation: Operation,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        guard entries[operation.sequence] == nil else { return [] }
        order.insert(operation.sequence, at: order.partitioningIndex(of: operation.sequence))
        entries[operation.sequence] = Entry(operation: operation)
        return try rerun([operation.sequence], changed: [], over: base)
    }

    /// Takes operations out and takes note of a changed base, in one step.
    ///
    /// - Parameters:
    ///   - sequences: The operations that are settled, refused or discarded.
    ///   - keys: The records whose base has changed already.
    ///   - everything: Whether the whole base is another.
    ///   - base: The new base.
    /// - Returns: The records whose visible value may have changed.
    /// - Throws: what the base threw. The list is then as after the event, the view is not.
    package mutating func settle(
        removing sequences: some Sequence<Int64>,
        changed keys: some Sequence<RecordKey>,
        everything: Bool = false,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        var changed = Set(keys)
        var dirty: Set<Int64> = everything ? Set(order) : []
        for key in changed { dirty.formUnion(affected(by: key, after: .min)) }
        for sequence in sequences {
            guard let entry = entries.removeValue(forKey: sequence) else { continue }
            let place = order.partitioningIndex(of: sequence)
            order.remove(at: place)
            unlink(entry)
            for key in entry.changes.keys {
                changed.insert(key)
                dirty.formUnion(affected(by: key, after: sequence))
            }
        }
        return try rerun(dirty.filter { entries[$0] != nil }, changed: changed, over: base)
    }

    // MARK: - Machinery

    // Runs operations again, in order, and those after them that what they changed concerns.
    private mutating func rerun(
        _ first: Set<Int64>,
        changed: Set<RecordKey>,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        var changed = changed
        var queued = first
        var heap = Heap(first)
        while let sequence = heap.popMin() {
            guard let old = entries[sequence] else { continue }
            let new = try run(old.operation, over: base)
            if old.touched != new.touched || old.lookups != new.lookups {
                unlink(old)
                link(new)
            }
            entries[sequence] = new
            for key in Set(old.changes.keys).union(new.changes.keys)
            where old.changes[key] != new.changes[key] {
                changed.insert(key)
                for later in affected(by: key, after: sequence)
                where queued.insert(later).inserted {
                    heap.insert(later)
                }
            }
        }
        checkInvariants()
        return changed
    }

    // Not in the loop above: what it reads from must be gone before the list is changed, or the
    // list would be copied.
    private func run(_ operation: Operation, over base: some RecordSource) throws -> Entry {
        var records = Records(
            from: View(replay: self, before: operation.sequence, base: base),
            schema: schema,
            operation: operation.context
        )
        var refusal: Refusal?
        do {
            try records.run(operation.mutator)
        } catch let reason as Refusal {
            refusal = reason
        }
        return Entry(
            operation: operation,
            changes: refusal == nil ? records.changes : [:],
            touched: records.touched.union(records.changes.keys),
            lookups: records.lookups,
            refusal: refusal
        )
    }

    // Those after a place that a change of the record's value there may concern.
    private func affected(by key: RecordKey, after sequence: Int64) -> [Int64] {
        let readers = readers[key]?.suffix(after: sequence) ?? []
        let seekers = seekers[key.collection]?.suffix(after: sequence) ?? []
        return Array(readers) + Array(seekers)
    }

    private mutating func link(_ entry: Entry) {
        let sequence = entry.operation.sequence
        for key in entry.touched { readers[key, default: []].insertSorted(sequence) }
        for collection in Set(entry.lookups.map(\.collection)) {
            seekers[collection, default: []].insertSorted(sequence)
        }
    }

    private mutating func unlink(_ entry: Entry) {
        let sequence = entry.operation.sequence
        for key in entry.touched {
            readers[key]?.removeSorted(sequence)
            if readers[key]?.isEmpty == true { readers[key] = nil }
        }
        for collection in Set(entry.lookups.map(\.collection)) {
            seekers[collection]?.removeSorted(sequence)
            if seekers[collection]?.isEmpty == true { seekers[collection] = nil }
        }
    }

    // What the last operation before a place made of the record; `nil` if none changed it.
    private func lastChange(of key: RecordKey, before sequence: Int64) -> RecordValue?? {
        guard let readers = readers[key] else { return nil }
        for reader in readers[..<readers.partitioningIndex(of: sequence)].reversed() {
            if let change = entries[reader]?.changes[key] { return change }
        }
        return nil
    }

    private func record(
        _ key: RecordKey,
        before sequence: Int64,
        over base: some RecordSource
    ) throws -> SourcedRecord? {
        if let change = lastChange(of: key, before: sequence) { return change.map { .init($0) } }
        return try base.record(key)
    }

    /// What is visible to the operation at a place.
    private struct View<Base: RecordSource>: RecordSource {
        let replay: Replay
        let before: Int64
        let base: Base

        func record(_ key: RecordKey) throws -> SourcedRecord? {
            try replay.record(key, before: before, over: base)
        }

        func ids(
            in collection: String,
            where field: String,
            is value: JSONValue,
            limit: Int
        ) throws -> [RecordID] {
            var changed: [RecordID: RecordValue?] = [:]
            for key in replay.readers.keys where key.collection == collection {
                if let change = replay.lastChange(of: key, before: before) {
                    changed.updateValue(change, forKey: key.id)
                }
            }
            // What pending operations took away from the base's answer must not shorten it.
            let found = try base.ids(
                in: collection,
                where: field,
                is: value,
                limit: limit + changed.count
            )
            var ids = Set(found)
            for (id, change) in changed {
                if let change, change[field] == value { ids.insert(id) } else { ids.remove(id) }
            }
            return Array(ids.sorted().prefix(limit))
        }
    }

    // Running everything again costs what incremental replay saves: only small lists are checked.
    private func checkInvariants() {
        assert(order.count == entries.count)
        assert(
            {
                guard order.count <= 12 else { return true }
                guard zip(order, order.dropFirst()).allSatisfy({ $0 < $1 }) else { return false }
                var naive: [RecordKey: RecordValue?] = [:]
                for sequence in order {
                    guard let entry = entries[sequence] else { return false }
                    for (key, change) in entry.changes { naive.updateValue(change, forKey: key) }
                }
                return naive.allSatisfy { lastChange(of: $0.key, before: .max) == .some($0.value) }
            }(),
            "The view is not what the operations made."
        )
    }
}

extension [Int64] {
    /// The place of the first element that is not smaller.
    fileprivate func partitioningIndex(of element: Int64) -> Int {
        if let last, last < element { return count }  // What is new comes at the end.
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle] < element { low = middle + 1 } else { high = middle }
        }
        return low
    }

    fileprivate func suffix(after element: Int64) -> ArraySlice<Int64> {
        element == .min ? self[...] : self[partitioningIndex(of: element + 1)...]
    }

    fileprivate mutating func insertSorted(_ element: Int64) {
        insert(element, at: partitioningIndex(of: element))
    }

    fileprivate mutating func removeSorted(_ element: Int64) {
        let place = partitioningIndex(of: element)
        if place < count, self[place] == element { remove(at: place) }
    }
}
