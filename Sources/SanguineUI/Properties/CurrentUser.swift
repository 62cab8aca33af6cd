#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// What the user may spend, in a view: the server's balance and, on top of it, the calls in flight.
///
/// ```swift
/// struct TokenBadge: View {
///     @CurrentBalance var balance
///
///     var body: some View { Text(balance.map { "\($0.available)" } ?? "…") }
/// }
/// ```
///
/// `$balance` is the Sanguine/ValueModel.
@MainActor
@propertyWrapper
public struct CurrentBalance: DynamicProperty {
    @CachedValue(.balance) private var balance

    /// The balance of the client in the environment.
    public nonisolated init() {}

    /// The balance; `nil` if it was never fetched.
    public var wrappedValue: Balance? { balance }

    /// The model: its phase, its error, and `refresh()`.
    public var projectedValue: ValueModel<Balance> { $balance }
}

/// What the user did and the backend has not settled yet, in a view.
///
/// ```swift
/// struct SyncBadge: View {
///     @CurrentOutbox var outbox
///
///     var body: some View { Text(outbox.isAllSent ? "All sent" : "Waiting") }
/// }
/// ```
///
/// The wrapped value is the Sanguine/OutboxModel: what waits, and what was refused.
@MainActor
@propertyWrapper
public struct CurrentOutbox: DynamicProperty {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<OutboxModel>

    /// The outbox of the client in the environment.
    public nonisolated init() { _slot = State(initialValue: ModelSlot()) }

    /// The model.
    public var wrappedValue: OutboxModel {
        slot.model(of: ModelIdentity("outbox"), from: client) { $0.outbox.model }
    }

    /// Called by SwiftUI before the view's body is.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, though it does not say so.
        MainActor.assumeIsolated { _ = wrappedValue }
    }
}
#endif
