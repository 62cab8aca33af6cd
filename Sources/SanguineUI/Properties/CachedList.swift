#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The rows of a list in a view.
///
/// Known rows are available at once, and the view follows changes.
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
/// `$posts` is the Sanguine/ListModel: `phase`, `hasMore`, `loadNext()` and more. The client and
/// the list may change, as described for CachedValue.
@MainActor
@propertyWrapper
public struct CachedList<Item: Codable & Sendable & Equatable & Identifiable>: DynamicProperty
where Item.ID: Sendable {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<ListModel<Item>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> ListModel<Item>

    /// Creates the property for a list.
    public nonisolated init(_ list: ListQuery<Item>) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(list.identity)
        make = { $0.model(list) }
    }

    /// Creates the property for a list that depends on an id, which may be a temporary one.
    ///
    /// After the temporary id is replaced, the list of the permanent id is shown.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - list: Creates the list for an id.
    public nonisolated init(
        of id: String,
        _ list: @escaping @Sendable (String) -> ListQuery<Item>
    ) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(list(id).identity, id)
        make = { $0.model(of: id, list) }
    }

    /// The rows, whether or not they are fresh.
    public var wrappedValue: [Item] { projectedValue.items }

    /// The model, with its phase, its errors, and methods to load more.
    public var projectedValue: ListModel<Item> {
        slot.model(of: identity, from: client, make)
    }

    /// Called by SwiftUI before it calls the view's body.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, although it does not declare
        // this.
        MainActor.assumeIsolated { _ = projectedValue }
    }
}
#endif
