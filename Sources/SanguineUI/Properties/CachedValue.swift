#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The value of a query in a view.
///
/// A known value is available at once, and the view follows changes.
///
/// ```swift
/// struct ProfileName: View {
///     @CachedValue(.profile("42")) var profile
///
///     var body: some View { Text(profile?.name ?? "…") }
/// }
/// ```
///
/// The wrapped value is `nil` until there is one. `$profile` is the Sanguine/ValueModel with its
/// phase, its error and `refresh()`. The client is that of the environment, see
/// `sanguineClient(_:)`. If the query depends on the view's parameters, set it in the view's
/// initializer: `_profile = CachedValue(.profile(id))`. If the query or the environment's client
/// changes, the view shows the new query's known value, and releases the previous model.
@MainActor
@propertyWrapper
public struct CachedValue<Value: Codable & Sendable & Equatable>: DynamicProperty {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<ValueModel<Value>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> ValueModel<Value>

    /// Creates the property for a query.
    public nonisolated init(_ query: ValueQuery<Value>) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query.identity)
        make = { $0.model(query) }
    }

    /// Creates the property for the query of an id, which may be a temporary one.
    ///
    /// After the temporary id is replaced, the query of the permanent id is shown.
    ///
    /// - Parameters:
    ///   - id: The id, temporary or not.
    ///   - query: Creates the query for an id.
    public nonisolated init(
        of id: String,
        _ query: @escaping @Sendable (String) -> ValueQuery<Value>
    ) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query(id).identity, id)
        make = { $0.model(of: id, query) }
    }

    /// The value, whether or not it is fresh, or `nil` if there never was one.
    public var wrappedValue: Value? { projectedValue.value }

    /// The model, with its phase, its error, the time of the value, and `refresh()`.
    public var projectedValue: ValueModel<Value> {
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
