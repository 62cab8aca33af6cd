import Foundation
public import Observation
public import SanguineModel

/// A list for a view: observable properties that follow the cache.
///
/// ```swift
/// struct FeedView: View {
///     @State var feed: ListModel<Post>  // client.model(.feed(.forYou))
///
///     var body: some View {
///         List(feed.items) { post in
///             PostRow(post).onAppear { feed.itemAppeared(post.id) }
///         }
///         .refreshable { await feed.refresh() }
///     }
/// }
/// ```
///
/// What is cached is there when the model is created. A property changes only when its value does,
/// and all changes of one moment come in one turn of the main actor. Who awaits a load on the main
/// actor, of whatever part of the client, finds its rows in the model. Views of the same list share
/// one model; when the last of them releases it, it stops following, and with it whatever only it
/// has asked for.
@MainActor
@Observable
public final class ListModel<Item: Codable & Sendable & Equatable & Identifiable>
where Item.ID: Sendable {
    /// What a view shows in place of, or beside, the rows.
    public typealias Phase = ListSnapshot<Item>.Phase

    /// The rows, fresh or not; none stands twice.
    public private(set) var items: [Item] = []
    /// Whether rows follow the last one.
    public private(set) var hasMore = false
    /// Whether rows before the first one were dropped; see ``loadPrevious()``.
    public private(set) var hasPrevious = false
    /// What to show in place of, or beside, the rows.
    public private(set) var phase = Phase.empty
    /// Why the last refresh failed; `nil` after one that succeeded.
    public private(set) var error: SanguineError?
    /// Why the last load of the next page failed; `nil` after one that succeeded.
    public private(set) var nextError: SanguineError?
    /// When the list's beginning arrived.
    public private(set) var asOf: Timestamp?

    /// The first row that the reader sees, if it must stay reachable when the list is refreshed.
    ///
    /// Set it from the scroll position, `nil` at the top. Default: `nil`.
    @ObservationIgnored public var anchor: Item.ID? {
        didSet { source.setAnchor(anchor) }
    }

    @ObservationIgnored private var source: ListSource<Item>
    @ObservationIgnored private let turn: MainTurn
    @ObservationIgnored private let owner: UInt64
    /// What the list is made of, if it depends on an id that may be a temporary one.
    @ObservationIgnored private var id: FollowedID<ListSource<Item>>?
    /// Whether what is shown is still that of the id before.
    @ObservationIgnored private var isOfFormerID = false
    /// Weak: it keeps models.
    @ObservationIgnored private weak var models: ModelTable?
    /// What the other properties are: observed ones cost more to read than a page to append.
    @ObservationIgnored private var shown = ListSnapshot<Item>()
    /// Which rows ``items`` are.
    @ObservationIgnored private var span: PageSpan?
    @ObservationIgnored private var following: ObservationToken?
    @ObservationIgnored private var prefetching: Task<Void, Never>?

    init(_ source: ListSource<Item>, on device: Device) {
        self.source = source
        models = device.models
        turn = device.turn
        owner = turn.newOwner()
        follow()
        applyNewest()
    }

    private func follow() {
        let observer = ListSource<Item>.Observer(
            tell: { [weak self, turn, owner] _ in
                turn.schedule({ self?.applyNewest() }, for: owner)
            },
            finish: {}
        )
        following = source.observe(observer, priority: .visible).map { ObservationToken($0) }
    }

    /// Goes on with another list as soon as another id stands for the one that it depends on.
    func follow(_ id: FollowedID<ListSource<Item>>) {
        guard self.id == nil else { return }
        self.id = id
        applyNewest()
    }

    deinit {
        prefetching?.cancel()
        turn.keep(following)
    }

    /// Loads the page after the last row, and returns when that has ended.
    ///
    /// A failure is in ``nextError``; the next call asks for the same page again.
    public func loadNext() async {
        await load(.next)
    }

    /// Loads the page before the first row, if rows were dropped there.
    ///
    /// A failure is in ``error``.
    public func loadPrevious() async {
        await load(.previous)
    }

    /// Refreshes the list, and returns when that has ended.
    ///
    /// A failure is in ``error``.
    ///
    /// - Parameter force: Whether to ask although the list is fresh by its policy. Default: yes,
    ///   for this is what a reader who pulls the list down wants.
    public func refresh(force: Bool = true) async {
        if force {
            try? await source.refresh(priority: .visible)
        } else {
            _ = try? await source.queries.value(of: source.entry, priority: .visible)
        }
        applyNewest()
    }

    /// Tries again what has failed: the next page, and the page before or the list itself.
    public func retry() async {
        if nextError != nil { await loadNext() }
        guard error != nil else { return }
        if source.failedHeadLoad == .previous { await loadPrevious() } else { await refresh() }
    }

    /// Tells that a row is shown.
    ///
    /// Near the list's end the next page is loaded ahead, unless that has just failed. A row from
    /// before the last refresh is asked for again.
    public func itemAppeared(_ id: Item.ID) {
        guard source.show(id), prefetching == nil else { return }
        prefetching = Task { [weak self, source] in
            try? await source.load(.next, priority: .prefetch)
            self?.prefetching = nil
        }
    }

    private func load(_ load: ListLoad) async {
        // Every reader learns of the failure through the state, this one included.
        try? await source.load(load, priority: .visible)
        applyNewest()
    }

    func userChanged() {
        isOfFormerID = false
        applyNewest()
    }

    func applyNewest() {
        if let next = id?.next(), next !== source {
            (source, span, isOfFormerID) = (next, nil, true)
            source.setAnchor(anchor)
            models?.add(self, as: source.entry.key)
            follow()
        }
        let (state, rows, span) = source.look(since: span)
        if isOfFormerID, state.phase == .loading || state.phase == .empty { return }
        isOfFormerID = false
        let before = shown
        shown = state
        self.span = span
        switch rows {
        case .nothing: break
        case .slid:
            rows.apply(to: &items)
            models?.changed(self)
        case .all(let all):
            guard items != all else { break }
            items = all
            models?.changed(self)
        }
        if before.hasMore != state.hasMore { hasMore = state.hasMore }
        if before.hasPrevious != state.hasPrevious { hasPrevious = state.hasPrevious }
        // Two equal errors may have come with different answers.
        if before.error != nil || state.error != nil { error = state.error }
        if before.nextError != nil || state.nextError != nil { nextError = state.nextError }
        if before.asOf != state.asOf { asOf = state.asOf }
        if before.phase != state.phase { phase = state.phase }
    }
}

extension ListModel: FollowingModel {}
