import Foundation
public import Observation
public import SanguineModel

/// A list as an observable object for SwiftUI views.
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
/// The cached list is available when the model is created. A property changes only when its value
/// does, and all changes are applied once per turn of the main actor. When a load that is awaited
/// on the main actor returns, the model contains its rows, no matter which part of the client has
/// loaded them. Views of the same list share one model. When the last of them releases it, the
/// model stops following, and loads that only it has requested are cancelled.
@MainActor
@Observable
public final class ListModel<Item: Codable & Sendable & Equatable & Identifiable>
where Item.ID: Sendable {
    /// The content that a view shows instead of, or in addition to, the rows.
    public typealias Phase = ListSnapshot<Item>.Phase

    /// The rows, fresh or stale, without duplicates.
    public private(set) var items: [Item] = []
    /// Whether rows follow the last one.
    public private(set) var hasMore = false
    /// Whether rows before the first one were dropped; see ``loadPrevious()``.
    public private(set) var hasPrevious = false
    /// The content to show instead of, or in addition to, the rows.
    public private(set) var phase = Phase.empty
    /// The error of the last refresh; `nil` if it succeeded.
    public private(set) var error: SanguineError?
    /// The error of the last load of the next page; `nil` if it succeeded.
    public private(set) var nextError: SanguineError?
    /// The time at which the list's beginning arrived.
    public private(set) var asOf: Timestamp?

    /// The first visible row, if it must stay reachable when the list is refreshed.
    ///
    /// Set it from the scroll position, and to `nil` at the top. Default: `nil`.
    @ObservationIgnored public var anchor: Item.ID? {
        didSet { source.setAnchor(anchor) }
    }

    @ObservationIgnored private var source: ListSource<Item>
    @ObservationIgnored private let mainActorBatch: MainActorBatch
    @ObservationIgnored private let owner: UInt64
    /// The followed id, if the list depends on one that may be temporary.
    @ObservationIgnored private var id: FollowedID<ListSource<Item>>?
    /// Whether the rows are still those of the former id.
    @ObservationIgnored private var isOfFormerID = false
    /// Weak, because the table retains its models.
    @ObservationIgnored private weak var models: ModelTable?
    /// A copy of the observable properties, because reading those costs more than appending a page.
    @ObservationIgnored private var shown = ListSnapshot<Item>()
    /// The span of the rows in ``items``.
    @ObservationIgnored private var span: PageSpan?
    @ObservationIgnored private var following: ObservationToken?
    @ObservationIgnored private var prefetching: Task<Void, Never>?
    /// The last row that appeared while a page was being prefetched.
    @ObservationIgnored private var appearedMeanwhile: Item.ID?

    /// The user's own records, if the model shows them.
    @ObservationIgnored private let own: OwnRecordFollowing<Item>?
    /// The rows without the user's own records; empty if the model does not show these.
    @ObservationIgnored private var listed: [Item] = []

    init(
        _ source: ListSource<Item>,
        own: OwnRecordFollowing<Item>? = nil,
        on services: ClientServices
    ) {
        (self.source, self.own) = (source, own)
        models = services.models
        mainActorBatch = services.mainActorBatch
        owner = mainActorBatch.newOwner()
        follow()
        applyNewest()
        own?.start(services) { [weak self] in self?.applyNewest() }
    }

    private func follow() {
        let observer = ListSource<Item>.Observer(
            tell: { [weak self, mainActorBatch, owner] _ in
                mainActorBatch.schedule({ self?.applyNewest() }, for: owner)
            },
            finish: {}
        )
        following = source.observe(observer, priority: .visible).map { ObservationToken($0) }
    }

    /// Switches to another list when the temporary id that the list depends on is replaced.
    func follow(_ id: FollowedID<ListSource<Item>>) {
        guard self.id == nil else { return }
        self.id = id
        applyNewest()
    }

    deinit {
        prefetching?.cancel()
        mainActorBatch.keep(following)
    }

    /// Loads the page after the last row and returns when the load has ended.
    ///
    /// An error is stored in ``nextError``; the next call requests the same page again.
    public func loadNext() async {
        await load(.next)
    }

    /// Loads the page before the first row, if rows were dropped there.
    ///
    /// An error is stored in ``error``.
    public func loadPrevious() async {
        await load(.previous)
    }

    /// Refreshes the list and returns when the refresh has ended.
    ///
    /// An error is stored in ``error``.
    ///
    /// - Parameter force: Whether to refresh a list that is fresh by its policy. Default: yes,
    ///   because a user who pulls down the list expects it.
    public func refresh(force: Bool = true) async {
        if force {
            try? await source.refresh(priority: .visible)
        } else {
            _ = try? await source.queries.value(of: source.entry, priority: .visible)
        }
        applyNewest()
    }

    /// Retries failed loads: the next page, and the previous page or the list itself.
    public func retry() async {
        if nextError != nil { await loadNext() }
        guard error != nil else { return }
        if source.failedHeadLoad == .previous { await loadPrevious() } else { await refresh() }
    }

    /// Reports that a row is visible.
    ///
    /// Near the list's end, this loads the next page ahead, unless its last load has failed. A row
    /// that was loaded before the last refresh is fetched again.
    public func itemAppeared(_ id: Item.ID) {
        guard source.show(id) else { return }
        guard prefetching == nil else { return appearedMeanwhile = id }
        prefetching = Task { [weak self, source] in
            try? await source.load(.next, priority: .prefetch)
            self?.prefetched()
        }
    }

    private func prefetched() {
        prefetching = nil
        guard let id = appearedMeanwhile else { return }
        appearedMeanwhile = nil
        itemAppeared(id)
    }

    private func load(_ load: ListLoad) async {
        // All observers get the error through the state, including this caller.
        try? await source.load(load, priority: .visible)
        applyNewest()
    }

    func userChanged() {
        isOfFormerID = false
        own?.userChanged()
        applyNewest()
    }

    func applyNewest() {
        if let next = id?.next(), next !== source {
            (source, span, isOfFormerID) = (next, nil, true)
            source.setAnchor(anchor)
            models?.add(self, as: source.entry.key)
            follow()
        }
        let (state, rows, span) = source.changes(since: span)
        if isOfFormerID, state.phase == .loading || state.phase == .empty { return }
        isOfFormerID = false
        let before = shown
        shown = state
        self.span = span
        show(rows, in: state)
        if before.hasMore != state.hasMore { hasMore = state.hasMore }
        if before.hasPrevious != state.hasPrevious { hasPrevious = state.hasPrevious }
        // Two equal errors may come from different responses.
        if before.error != nil || state.error != nil { error = state.error }
        if before.nextError != nil || state.nextError != nil { nextError = state.nextError }
        if before.asOf != state.asOf { asOf = state.asOf }
        if before.phase != state.phase { phase = state.phase }
    }

    private func show(_ change: PageChange<Item>, in state: ListSnapshot<Item>) {
        let all: [Item]
        switch change {
        case _ where own != nil:
            change.apply(to: &listed)
            all = own?.rows(listed, in: state) ?? listed
        case .nothing: return
        case .slid:
            change.apply(to: &items)
            models?.startGrace(of: self)
            return
        case .all(let rows): all = rows
        }
        guard items != all else { return }
        items = all
        models?.startGrace(of: self)
    }
}

extension ListModel: FollowingModel {}
