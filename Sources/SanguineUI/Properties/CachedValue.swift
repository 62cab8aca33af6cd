#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The value of a query in a view: it is there at once if it is known, and follows every change.
///
/// ```swift
/// struct ProfileName: View {
///     @CachedValue(.profile("42")) var profile
///
///     var body: some View { Text(profile?.name ?? "…") }
/// }
/// ```
///
/// The wrapped value is `nil` until there is one; `$profile` is the Sanguine/ValueModel with
/// its phase, its error and `refresh()`. The client is that of the environment, see
/// `sanguineClient(_:)`. Where the query depends on what the view is given, it is set in the view's
/// initializer: `_profile = CachedValue(.profile(id))`. When that is another query, or the
/// environment has another client, the view shows what is known there, and lets the former one go.
@MainActor
@propertyWrapper
public struct CachedValue<Value: Codable & Sendable & Equatable>: DynamicProperty {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<ValueModel<Value>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> ValueModel<Value>

    /// The value of this query.
    public nonisolated init(_ query: ValueQuery<Value>) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query.identity)
        make = { $0.model(query) }
    }

    /// The value of the query of an id that may be a temporary one.
    ///
    /// When another id has come to stand for it, the query of that one follows.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - query: Makes the query of an id.
    public nonisolated init(
        of id: String,
        _ query: @escaping @Sendable (String) -> ValueQuery<Value>
    ) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query(id).identity, id)
        make = { $0.model(of: id, query) }
    }

    /// The value, fresh or not; `nil` if there never was one.
    public var wrappedValue: Value? { projectedValue.value }

    /// The model: its phase, its error, when the value came, and `refresh()`.
    public var projectedValue: ValueModel<Value> {
        slot.model(of: identity, from: client, make)
    }

    /// Called by SwiftUI before the view's body is.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, though it does not say so.
        MainActor.assumeIsolated { _ = projectedValue }
    }
}
#endif
