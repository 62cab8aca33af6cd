#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// What a query makes of the user's records in a view: with all that waits to be sent, and every
/// change of it.
///
/// ```swift
/// struct HabitsView: View {
///     @CachedRecords(.all(Habit.self)) var habits
///
///     var body: some View { List(habits) { Text($0.title) } }
/// }
/// ```
///
/// The value is always there. `$habits` is the Sanguine/RecordModel. Client and query may change
/// as those of a CachedValue; of a query that was declared with a closure nobody can tell which
/// one it is, so what it depends on is said beside it, see init(_:id:).
@MainActor
@propertyWrapper
public struct CachedRecords<Value: Sendable & Equatable>: DynamicProperty {
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<RecordModel<Value>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> RecordModel<Value>

    /// What this query gives.
    ///
    /// A query with a closure stays the one that the view had first; if it depends on what the
    /// view is given, use init(_:id:).
    public nonisolated init(_ query: RecordQuery<Value>) {
        self.init(query, key: nil)
    }

    /// What this query gives, which depends on `id`: if that is another, so is the query.
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

    /// What the query gives.
    public var wrappedValue: Value { projectedValue.value }

    /// The model.
    public var projectedValue: RecordModel<Value> {
        slot.model(of: identity, from: client, make)
    }

    /// Called by SwiftUI before the view's body is.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, though it does not say so.
        MainActor.assumeIsolated { _ = projectedValue }
    }
}
#endif
