#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// A stretch of days or numbers in a view: what is known is there at once, and only what is not
/// known is fetched.
///
/// ```swift
/// struct MonthView: View {
///     @CachedRange<CalendarDay, Mood> var moods: RangeValues<CalendarDay, Mood>
///
///     init(_ month: ClosedRange<CalendarDay>) { _moods = CachedRange(.moods, in: month) }
/// }
/// ```
///
/// `$moods` is the Sanguine/RangeModel. Client, query and stretch may change as those of a
/// CachedValue.
@MainActor
@propertyWrapper
public struct CachedRange<Index: RangeIndex, Value: Codable & Sendable & Equatable>:
    DynamicProperty
{
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<RangeModel<Index, Value>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> RangeModel<Index, Value>

    /// The values of this query in that stretch.
    public nonisolated init(_ query: RangeQuery<Index, Value>, in range: ClosedRange<Index>) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query.identity, range)
        make = { $0.model(query, in: range) }
    }

    /// What is known of the stretch.
    public var wrappedValue: RangeValues<Index, Value> { projectedValue.state }

    /// The model, which shows another stretch when it is told to, until the view names another.
    public var projectedValue: RangeModel<Index, Value> {
        slot.model(of: identity, from: client, make)
    }

    /// Called by SwiftUI before the view's body is.
    public nonisolated func update() {
        // SwiftUI updates the properties of views on the main actor, though it does not say so.
        MainActor.assumeIsolated { _ = projectedValue }
    }
}
#endif
