#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The rows of a list in a view: those that are known are there at once, and every change follows.
///
/// ```swift
/// struct FeedView: View {
///     @CachedList(.feed(.forYou)) var posts
///
///     var body: some View {
///         List(posts) { post in
///             Text(post.id).onAppear { $posts.itemAppeared(post.id) }
///         }
///         .refreshable { await $posts.refresh() }
///     }
/// }
/// ```
///
/// `$posts` is the Sanguine/ListModel: `phase`, `hasMore`, `loadNext()` and more. Client and
/// list may change as those of a CachedValue.
@MainActor
@propertyWrapper
public struct CachedList<Item: Codable & Sendable & Equatable & Identifiable>: DynamicProperty
where Item.ID: Sendable {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<ListModel<Item>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> ListModel<Item>

    /// The rows of this list.
    public nonisolated init(_ list: ListQuery<Item>) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(list.identity)
        make = { $0.model(list) }
    }

    /// The rows of a list that depends on an id which may be a temporary one.
    ///
    /// When another id has come to stand for it, the list of that one follows.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - list: Makes the list of an id.
    public nonisolated init(
        of id: String,
        _ list: @escaping @Sendable (String) -> ListQuery<Item>
    ) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(list(id).identity, id)
        make = { $0.model(of: id, list) }
    }

    /// The rows, fresh or not.
    public var wrappedValue: [Item] { projectedValue.items }

    /// The model: its phase, its errors, and what loads more.
    public var projectedValue: ListModel<Item> {
        slot.model(of: identity, from: client, make)
    }

    /// Called by SwiftUI before the view's body is.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, though it does not say so.
        MainActor.assumeIsolated { _ = projectedValue }
    }
}
#endif
