import HeapModule
package import SanguineModel

/// The user's view of their records: *base ⊕ pending*.
///
/// The base is the authority's state and is not stored here: each call gets a source to read it
/// from. The pending operations are stored here, in the order of their sequence numbers, each with
/// its changes from the last run. A record's visible value is the one from the last operation that
/// changed it, or the base's.
///
/// Replay is incremental. A change of the base, or of the list of operations, reruns only the
/// operations that read a record whose value before them has changed: one change of the base under
/// a thousand pending operations reruns the one or two that it affects.
///
/// An operation that no longer applies stays in the list and is left out of the view; when the base
/// changes so that it applies again, it is visible again.
///
/// Pure: no I/O of its own, no clock. Time for one event: O(operations run × log pending).
///
/// Invariants, checked in debug builds after each event:
///
/// 1. Operations are unique and in ascending order of their sequence numbers.
/// 2. `readers` contains, for each record, exactly the operations that read or changed it.
/// 3. The view equals the result of running all operations in order over the base.
package struct Replay {
    /// An operation that is not settled.
    package struct Operation {
        package fileprivate(set) var sequence: Int64
        package let context: OperationContext
        package let mutation: any RecordMutation

        package init(sequence: Int64, id: Identifier, mutation: any RecordMutation) {
            self.sequence = sequence
            context = OperationContext(id: id)
            self.mutation = mutation
        }
    }

    /// The effect of an operation after all others, see ``dryRun(_:id:over:)``.
    package struct DryRun {
        fileprivate let entry: Entry

        /// The operation's mutation.
        package var mutation: any RecordMutation { entry.operation.mutation }
    }

    /// An operation with its effect from the last run.
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
    /// The operations that read or changed a record, ascending.
    private var readers: [RecordKey: [Int64]] = [:]
    /// The operations that looked for records of a collection by an index, ascending.
    private var seekers: [String: [Int64]] = [:]

    package init(schema: RecordSchema) { self.schema = schema }

    // MARK: - Reading

    /// The number of pending operations.
    package var count: Int { order.count }

    /// Returns the visible value of a record.
    ///
    /// - Parameters:
    ///   - key: The record.
    ///   - hidden: The operations that are left out, with all their ``dependents(of:)``. Default:
    ///     none.
    ///   - base: The base.
    /// - Returns: The value.
    /// - Throws: The base's error.
    package func record(
        _ key: RecordKey,
        without hidden: Set<Int64> = [],
        over base: some RecordSource
    ) throws -> SourcedRecord? {
        if let change = lastChange(of: key, before: .max, without: hidden) {
            return change.map { .init($0) }
        }
        return try base.record(key)
    }

    /// Returns the ids of the visible records whose member has the value, ascending.
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

    /// Returns the visible values of the records that pending operations have changed.
    package func changes(
        in collection: String,
        without hidden: Set<Int64> = []
    ) -> [RecordID: RecordValue?] {
        var changes: [RecordID: RecordValue?] = [:]
        for key in readers.keys where key.collection == collection {
            if let change = lastChange(of: key, before: .max, without: hidden) {
                changes.updateValue(change, forKey: key.id)
            }
        }
        return changes
    }

    /// Returns the reason why an operation does not apply now; `nil` if it does, or is not
    /// pending.
    package func refusal(of sequence: Int64) -> Refusal? { entries[sequence]?.refusal }

    /// Returns, for each record that an operation touched, the last operation before it that
    /// touched the record too.
    ///
    /// That operation in turn follows those before it.
    package func dependencies(of sequence: Int64) -> Set<Int64> {
        Set(
            touched(by: sequence).compactMap { key in
                readers[key].flatMap { $0[..<$0.partitioningIndex(of: sequence)].last }
            }
        )
    }

    /// Returns the operations, and those that read or changed what one of them has changed, and so
    /// on.
    ///
    /// The view without them is a replay of the other operations.
    package func dependents(of first: Set<Int64>) -> Set<Int64> {
        var dependents = first.intersection(order)
        var changed: Set<RecordKey> = []
        var collections: Set<String> = []
        for sequence in order {
            guard let entry = entries[sequence] else { continue }
            let isDependent =
                dependents.contains(sequence) || !entry.touched.isDisjoint(with: changed)
                || entry.lookups.contains { collections.contains($0.collection) }
            guard isDependent else { continue }
            dependents.insert(sequence)
            changed.formUnion(entry.changes.keys)
            collections.formUnion(entry.changes.keys.map(\.collection))
        }
        return dependents
    }

    /// Returns the records that an operation read or changed.
    package func touched(by sequence: Int64) -> Set<RecordKey> { entries[sequence]?.touched ?? [] }

    // MARK: - Events

    /// Runs an operation over the visible records without adding it.
    ///
    /// - Parameters:
    ///   - mutation: The operation's mutation.
    ///   - id: The operation's id.
    ///   - base: The base.
    /// - Returns: The operation's effect.
    /// - Throws: ``Refusal`` if it does not apply, or JSON cannot represent a record that it sets;
    ///   the base's error.
    package func dryRun(
        _ mutation: any RecordMutation,
        id: Identifier,
        over base: some RecordSource
    ) throws -> DryRun {
        let operation = Operation(sequence: .max, id: id, mutation: mutation)
        let entry = try run(operation, over: base)
        if let refusal = entry.refusal { throw refusal }
        for case (let key, let value?) in entry.changes {
            do {
                _ = try value.json()
            } catch {
                throw error as? Refusal ?? Refusal.unstorable(key, error)
            }
        }
        return DryRun(entry: entry)
    }

    /// Adds an operation that was run over the same base and after the same operations.
    ///
    /// - Parameters:
    ///   - dryRunResult: The operation's effect after all others.
    ///   - sequence: The number that it was assigned since.
    ///   - base: The base.
    /// - Returns: The records whose visible value changed.
    /// - Throws: The base's error.
    package mutating func add(
        _ dryRunResult: DryRun,
        at sequence: Int64,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        var entry = dryRunResult.entry
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

    /// Adds an operation at the index that its sequence number determines.
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

    /// Replaces an operation by one with the same sequence number and other arguments.
    ///
    /// - Returns: The records whose visible value changed.
    package mutating func replace(
        _ operation: Operation,
        over base: some RecordSource
    ) throws -> Set<RecordKey> {
        guard entries[operation.sequence] != nil else { return [] }
        entries[operation.sequence]?.operation = operation
        return try rerun([operation.sequence], changed: [], over: base)
    }

    /// Removes operations and applies a change of the base, in one step.
    ///
    /// - Parameters:
    ///   - sequences: The operations that are settled, refused or discarded.
    ///   - keys: The records whose base has changed already.
    ///   - everything: Whether the whole base was replaced.
    ///   - base: The new base.
    /// - Returns: The records whose visible value may have changed.
    /// - Throws: The base's error. Then the list is as after the event, but the view is not.
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
            let index = order.partitioningIndex(of: sequence)
            order.remove(at: index)
            unlink(entry)
            for key in entry.changes.keys {
                changed.insert(key)
                dirty.formUnion(affected(by: key, after: sequence))
            }
        }
        return try rerun(dirty.filter { entries[$0] != nil }, changed: changed, over: base)
    }

    // MARK: - Machinery

    // Reruns operations in order, together with later ones that their changes affect.
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

    // Not inlined into the loop above: the view must be released before the list changes, or the
    // list would be copied.
    private func run(_ operation: Operation, over base: some RecordSource) throws -> Entry {
        var records = Records(
            from: View(replay: self, before: operation.sequence, base: base),
            schema: schema,
            operation: operation.context
        )
        var refusal: Refusal?
        do {
            try records.run(operation.mutation)
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

    // Returns the operations after a sequence number that a change of the record may affect.
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

    // Returns the last change of the record before a sequence number; `nil` if there is none.
    private func lastChange(
        of key: RecordKey,
        before sequence: Int64,
        without hidden: Set<Int64> = []
    ) -> RecordValue?? {
        guard let readers = readers[key] else { return nil }
        for reader in readers[..<readers.partitioningIndex(of: sequence)].reversed()
        where !hidden.contains(reader) {
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

    /// The records that are visible to the operation with a sequence number.
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
            // The base must return enough ids even if pending operations remove some of them.
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

    // A full rerun costs what incremental replay saves, so only short lists are checked.
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
            "The view differs from a replay of the operations."
        )
    }
}

extension [Int64] {
    /// Returns the index of the first element that is not smaller.
    fileprivate func partitioningIndex(of element: Int64) -> Int {
        if let last, last < element { return count }  // New elements come last.
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
        let index = partitioningIndex(of: element)
        if index < count, self[index] == element { remove(at: index) }
    }
}
