public import SanguineModel

/// The changes that a ``RemoteMutation`` makes to visible values.
///
/// A value that is not cached is changed when it arrives.
public struct MutationEffects: Sendable {
    private var queries: [ErasedQuery] = []
    private var bodies: [QueryKey: [@Sendable (ValueBox, Effect) -> ValueBox]] = [:]
    private var lists: [QueryKey: ListEffect] = [:]
    private let cache: QueryCache
    /// The query that cannot be changed because it follows the server; `nil` if there is none.
    private(set) var refused: ErasedQuery?

    init(cache: QueryCache) { self.cache = cache }

    /// Changes a query's value.
    ///
    /// The balance and the quotas follow the server and the running calls. A mutation that
    /// changes them is refused when it is performed.
    public mutating func update<Value>(
        _ query: ValueQuery<Value>,
        _ body: @escaping @Sendable (inout Value) -> Void
    ) {
        guard !query.erased.isSourced else {
            refused = query.erased
            return
        }
        add(query.erased) { box, _ in
            guard var value = box.value(as: Value.self) else { return box }
            body(&value)
            return .of(value)
        }
    }

    /// Changes each loaded row of a list.
    public mutating func updateRows<Item>(
        of pages: ListQuery<Item>,
        _ body: @escaping @Sendable (inout Item) -> Void
    ) {
        updateList(pages) { list, effect in
            for index in list.rows.indices {
                if list.possiblyApplied[list.rows[index].id]?.contains(effect) == true { continue }
                body(&list.rows[index])
            }
        }
    }

    /// Inserts a row into a list, unless the list has a row with its id.
    ///
    /// Rows of several mutations keep their order, even if a later mutation is applied first, until
    /// the backend's list contains all of them.
    ///
    /// - Parameters:
    ///   - item: The row.
    ///   - pages: The list.
    ///   - index: The index of the row to insert before; past the end, the row is appended.
    ///     Default: 0.
    public mutating func insert<Item>(_ item: Item, into pages: ListQuery<Item>, at index: Int = 0)
    {
        updateList(pages) { list, effect in
            guard !list.rows.contains(where: { $0.id == item.id }) else { return }
            list.insert(item, at: index, by: effect.sequence)
        }
    }

    /// Removes a row from a list.
    public mutating func remove<Item>(_ id: Item.ID, from pages: ListQuery<Item>) {
        updateList(pages) { list, _ in list.rows.removeAll { $0.id == id } }
    }

    // Deprecated and not unavailable, because the compiler silently prefers the generic method to
    // an unavailable one.

    /// Not available for the balance; see the message.
    @available(
        *,
        deprecated,
        message: """
            The mutation will be refused: the balance follows the server and the running calls. \
            Use client.call(_:).
            """
    )
    public mutating func update(
        _ query: ValueQuery<Balance>,
        _ body: @escaping @Sendable (inout Balance) -> Void
    ) {
        refused = query.erased
    }

    /// Not available for the quotas; see the message.
    @available(
        *,
        deprecated,
        message: """
            The mutation will be refused: the quotas follow the server and the running calls. \
            Use client.call(_:).
            """
    )
    public mutating func update(
        _ query: ValueQuery<[Quota]>,
        _ body: @escaping @Sendable (inout [Quota]) -> Void
    ) {
        refused = query.erased
    }

    /// Not available for lists; see the message.
    @available(
        *,
        unavailable,
        message: "Use insert(_:into:), remove(_:from:) or updateRows(of:_:)."
    )
    public mutating func update<Item>(
        _ list: ListQuery<Item>,
        _ body: @escaping @Sendable (inout [Item]) -> Void
    ) {}

    /// Not available for ranges; see the message.
    @available(
        *,
        unavailable,
        message: """
            Use a ValueQuery for each index to change values optimistically. \
            client.update(_:at:_:) changes the values of a range.
            """
    )
    public mutating func update<Index, Value>(
        _ query: RangeQuery<Index, Value>,
        at index: Index,
        _ body: @escaping @Sendable (inout Value?) -> Void
    ) {}

    /// Not available for records; see the message.
    @available(
        *,
        unavailable,
        message: "Change records by a RecordMutation. A RemoteMutation changes queries and lists."
    )
    public mutating func update<Value>(
        _ query: RecordQuery<Value>,
        _ body: @escaping @Sendable (inout Value) -> Void
    ) {}

    /// Not available in effects; see the message.
    @available(
        *,
        unavailable,
        message: "Use update(_:_:). An effect is applied to each newer value and never replaces it."
    )
    public mutating func set<Value>(_ value: Value, for query: ValueQuery<Value>) {}

    private mutating func updateList<Item>(
        _ pages: ListQuery<Item>,
        _ body: @escaping @Sendable (inout PageList<Item>, Effect) -> Void
    ) {
        let query = cache.source(of: pages).entry.erased
        add(query) { box, effect in
            guard var list = box.value(as: PageList<Item>.self),
                !list.folded.contains(effect.sequence)
            else { return box }
            body(&list, effect)
            return .of(list)
        }
        lists[query.key] = ListEffect(
            isMerged: { box, sequence in
                box.value(as: PageList<Item>.self)?.folded.contains(sequence) ?? false
            },
            merged: { box, effect in
                guard let list = box.value(as: PageList<Item>.self),
                    let changed = effect.applied(to: box).value(as: PageList<Item>.self)
                else { return box }
                return .of(list.merging(effect.sequence, rows: changed.rows))
            },
            merge: { [weak cache] in cache?.source(of: pages).mergeEffects() },
            clearPossiblyApplied: { [weak cache] in
                cache?.source(of: pages).clearPossiblyApplied($0)
            }
        )
    }

    private mutating func add(
        _ query: ErasedQuery,
        _ body: @escaping @Sendable (ValueBox, Effect) -> ValueBox
    ) {
        if bodies[query.key] == nil { queries.append(query) }
        bodies[query.key, default: []].append(body)
    }

    /// Returns one effect for each changed query.
    func effects(of sequence: Int64) -> [Effect] {
        queries.map { query in
            let bodies = bodies[query.key] ?? []
            var effect = Effect(sequence: sequence, query: query) { box, effect in
                bodies.reduce(box) { $1($0, effect) }
            }
            effect.list = lists[query.key]
            return effect
        }
    }
}
