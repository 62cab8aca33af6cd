#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The user's balance in a view: the server's balance, adjusted for calls in progress.
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

    /// Creates the property for the balance of the environment's client.
    public nonisolated init() {}

    /// The balance, or `nil` if it was never fetched.
    public var wrappedValue: Balance? { balance }

    /// The model, with its phase, its error, and `refresh()`.
    public var projectedValue: ValueModel<Balance> { $balance }
}

/// The user's operations that the backend has not settled yet, in a view.
///
/// ```swift
/// struct SyncBadge: View {
///     @CurrentOutbox var outbox
///
///     var body: some View { Text(outbox.isAllSent ? "All sent" : "Waiting") }
/// }
/// ```
///
/// The wrapped value is the Sanguine/OutboxModel, with the waiting and the refused operations.
@MainActor
@propertyWrapper
public struct CurrentOutbox: DynamicProperty {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<OutboxModel>

    /// Creates the property for the outbox of the environment's client.
    public nonisolated init() { _slot = State(initialValue: ModelSlot()) }

    /// The model.
    public var wrappedValue: OutboxModel {
        slot.model(of: ModelIdentity("outbox"), from: client) { $0.outbox.model }
    }

    /// Called by SwiftUI before it calls the view's body.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, although it does not declare
        // this.
        MainActor.assumeIsolated { _ = wrappedValue }
    }
}
#endif
