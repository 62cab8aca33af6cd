import Foundation
public import Observation
public import SanguineModel

/// A list for a view: observable properties that follow the cache.
///
/// ```swift
/// struct FeedView: View {
///     @State var feed: PagesModel<Post>  // client.pages(.feed(.forYou))
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
/// What is cached is there when the model is created. A property changes only when its value does.
/// The model stops following when it is released, and with it whatever only it has asked for.
@MainActor
@Observable
public final class PagesModel<Item: Codable & Sendable & Equatable & Identifiable>
where Item.ID: Sendable {
    /// What a view shows in place of, or beside, the rows.
    public typealias Phase = PagesSnapshot<Item>.Phase

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
        didSet { keeper.setAnchor(anchor) }
    }

    @ObservationIgnored private let keeper: PagesKeeper<Item>
    @ObservationIgnored private var following: Task<Void, Never>?
    @ObservationIgnored private var prefetching: Task<Void, Never>?

    init(_ keeper: PagesKeeper<Item>) {
        self.keeper = keeper
        let signals = keeper.signals(priority: .visible)
        apply(keeper.snapshot())
        following = Task { [weak self] in
            for await _ in signals {
                guard let self else { return }
                apply(self.keeper.snapshot())
            }
        }
    }

    deinit {
        following?.cancel()
        prefetching?.cancel()
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
        _ = try? await keeper.queries.value(
            of: keeper.entry,
            refreshing: force,
            priority: .visible
        )
        apply(keeper.snapshot())
    }

    /// Tries again what has failed: the next page, and the page before or the list itself.
    public func retry() async {
        if nextError != nil { await loadNext() }
        guard error != nil else { return }
        if keeper.failedHeadLoad == .previous { await loadPrevious() } else { await refresh() }
    }

    /// Tells that a row is shown.
    ///
    /// Near the list's end the next page is loaded ahead, unless that has just failed. A row from
    /// before the last refresh is asked for again.
    public func itemAppeared(_ id: Item.ID) {
        guard keeper.show(id), prefetching == nil else { return }
        prefetching = Task { [weak self, keeper] in
            try? await keeper.load(.next, priority: .prefetch)
            self?.prefetching = nil
        }
    }

    private func load(_ load: PagesLoad) async {
        // Every reader learns of the failure through the state, this one included.
        try? await keeper.load(load, priority: .visible)
        apply(keeper.snapshot())
    }

    private func apply(_ state: PagesSnapshot<Item>) {
        if items != state.items { items = state.items }
        if hasMore != state.hasMore { hasMore = state.hasMore }
        if hasPrevious != state.hasPrevious { hasPrevious = state.hasPrevious }
        if error != state.error { error = state.error }
        if nextError != state.nextError { nextError = state.nextError }
        if asOf != state.asOf { asOf = state.asOf }
        if phase != state.phase { phase = state.phase }
    }
}
