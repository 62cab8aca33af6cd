#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The result of a query for the user's records in a view, including changes that are not sent yet.
///
/// The view follows changes.
///
/// ```swift
/// struct HabitsView: View {
///     @CachedRecords(.all(Habit.self)) var habits
///
///     var body: some View { List(habits) { Text($0.title) } }
/// }
/// ```
///
/// The value is always available. `$habits` is the Sanguine/RecordModel. The client and the query
/// may change, as described for CachedValue. Queries that are declared with a closure cannot be
/// compared, so pass the values that they depend on, see init(_:id:).
@MainActor
@propertyWrapper
public struct CachedRecords<Value: Sendable & Equatable>: DynamicProperty {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<RecordModel<Value>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> RecordModel<Value>

    /// Creates the property for a query.
    ///
    /// A query with a closure is never replaced by a later one. If it depends on the view's
    /// parameters, use init(_:id:).
    public nonisolated init(_ query: RecordQuery<Value>) {
        self.init(query, key: nil)
    }

    /// Creates the property for a query that depends on `id`, and changes with it.
    ///
    /// ```swift
    /// _due = CachedRecords(.due(on: day), id: day)
    /// ```
    public nonisolated init(_ query: RecordQuery<Value>, id: some Hashable & Sendable) {
        self.init(query, key: id)
    }

    private nonisolated init(_ query: RecordQuery<Value>, key: (any Hashable & Sendable)?) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query.identity ?? "", key)
        make = { $0.model(query) }
    }

    /// The result of the query.
    public var wrappedValue: Value { projectedValue.value }

    /// The model.
    public var projectedValue: RecordModel<Value> {
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
