/// A write to any backend that is visible before it is sent.
///
/// ```swift
/// struct Like: Mutation {
///     static let name = "post.like"
///     let post: String
///     var lane: String { post }
///
///     func effects(on view: inout MutationEffects) {
///         view.update(.post(post)) { $0.likes += 1 }
///     }
///
///     func send(_ request: MutationRequest) async throws {
///         try await request.post("posts/\(post)/like")
///     }
/// }
///
/// try client.perform(Like(post: post.id))
/// ```
///
/// Its members are what is kept on disk, as JSON: numbers and dates come back as they were, to the
/// last bit. It is an intent, never a copy of a value: its
/// effects are run again over each newer value until the backend's own has them in it.
///
/// One that undoes or replaces others which have not been sent conforms to
/// `Superseding`.
public protocol Mutation: Codable, Sendable {
    /// The name under which it is kept: unique among the mutations of an app, and stable.
    static var name: String { get }

    /// The lane in which it waits.
    ///
    /// Mutations of one lane are sent one after the other in their order, those of others at the
    /// same time. Whatever refers to an id that is still a temporary one belongs into the lane of
    /// what creates it. Default: `main`.
    var lane: String { get }

    /// Says what it changes in what is shown.
    ///
    /// Called when it is performed, and again after a restart. The changes themselves are called
    /// over each new value, on any thread, and see nothing but the value and the members.
    func effects(on view: inout MutationEffects)

    /// Sends it, with requests that carry its id as their `Idempotency-Key`.
    ///
    /// Called until the backend has answered: an answer that was lost is asked for again, in a
    /// later process if need be. What it then does:
    ///
    /// - It returns, or the answer of a status from 200 to 299 cannot be decoded: it is done.
    /// - Status 401: with ``SanguineClient/Configuration/refresh`` the token is renewed, and the
    ///   request made again; if that is not accepted either, it is sent again after a while.
    ///   Without, nothing is sent until somebody has signed in; see ``Outbox/resume()``.
    /// - Status 408, 425, 429 or 503: it was not done, and is sent again after a while, not before
    ///   `Retry-After`.
    /// - Another status from 500 on, code `operation_in_progress`, or no answer within a minute: it
    ///   may be done, and is sent again likewise, under the same key.
    /// - An error of the network, also of another stack than the client's: a ``TransportError``,
    ///   a `URLError`, a `POSIXError` of a connection, a `CancellationError`, or an `NSError` with
    ///   one of these as its underlying error. It may be done, and is sent again.
    /// - A ``ClassifiedError``, or a problem whose class ``SanguineClient/Configuration/errorBody``
    ///   says: as its class has it, before what is said above. It is sent again if that is
    ///   ``ErrorClass/retryable`` or ``ErrorClass/waits``.
    /// - Any other status, and any other error of the app's own: it is refused, its effects go, and
    ///   it is in the tray with the error's text; see ``Outbox/refused``.
    func send(_ request: MutationRequest) async throws
}

extension Mutation {
    /// `main`: all in their order.
    public var lane: String { "main" }
}

/// What a ``Mutation`` changes in what is shown.
///
/// A value that is not there is not changed; it is when it comes.
public struct MutationEffects {
    private var queries: [ErasedQuery] = []
    private var bodies: [QueryKey: [@Sendable (ValueBox, Effect) -> ValueBox]] = [:]
    private var lists: [QueryKey: ListEffect] = [:]
    private let cache: QueryCache

    init(cache: QueryCache) { self.cache = cache }

    /// Changes a query's value.
    ///
    /// Values that the client derives itself, such as the balance, cannot be changed.
    public mutating func update<Value>(
        _ query: Query<Value>,
        _ body: @escaping @Sendable (inout Value) -> Void
    ) {
        guard !query.erased.isSourced else { return }
        add(query.erased) { box, _ in
            guard var value = box.value(as: Value.self) else { return box }
            body(&value)
            return .of(value)
        }
    }

    /// Changes each row of a list, as far as it is held.
    public mutating func updateRows<Item>(
        of pages: Pages<Item>,
        _ body: @escaping @Sendable (inout Item) -> Void
    ) {
        updateList(pages) { list, effect in
            for place in list.rows.indices {
                if list.doubts[list.rows[place].id]?.contains(effect) == true { continue }
                body(&list.rows[place])
            }
        }
    }

    /// Shows a row in a list, unless the list has one of its id.
    ///
    /// - Parameters:
    ///   - item: The row.
    ///   - pages: The list.
    ///   - place: Before which row; at the end if there are fewer. Default: the first.
    public mutating func insert<Item>(_ item: Item, into pages: Pages<Item>, at place: Int = 0) {
        updateList(pages) { list, _ in
            guard !list.rows.contains(where: { $0.id == item.id }) else { return }
            list.rows.insert(item, at: min(max(0, place), list.rows.count))
        }
    }

    /// Shows a list without a row.
    public mutating func remove<Item>(_ id: Item.ID, from pages: Pages<Item>) {
        updateList(pages) { list, _ in list.rows.removeAll { $0.id == id } }
    }

    private mutating func updateList<Item>(
        _ pages: Pages<Item>,
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
            isFolded: { box, sequence in
                box.value(as: PageList<Item>.self)?.folded.contains(sequence) ?? false
            },
            folded: { box, effect in
                guard let list = box.value(as: PageList<Item>.self),
                    let changed = effect.applied(to: box).value(as: PageList<Item>.self)
                else { return box }
                return .of(list.folding(effect.sequence, rows: changed.rows))
            },
            fold: { [weak cache] in cache?.source(of: pages).fold() },
            dispel: { [weak cache] in cache?.source(of: pages).dispel($0) }
        )
    }

    private mutating func add(
        _ query: ErasedQuery,
        _ body: @escaping @Sendable (ValueBox, Effect) -> ValueBox
    ) {
        if bodies[query.key] == nil { queries.append(query) }
        bodies[query.key, default: []].append(body)
    }

    /// What it does to each key's values.
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
