#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// A range of days or numbers in a view.
///
/// Known values are available at once, and only missing ones are fetched.
///
/// ```swift
/// struct MonthView: View {
///     @CachedRange<CalendarDay, Mood> var moods: RangeValues<CalendarDay, Mood>
///
///     init(_ month: ClosedRange<CalendarDay>) { _moods = CachedRange(.moods, in: month) }
/// }
/// ```
///
/// `$moods` is the Sanguine/RangeModel. The client, the query and the range may change, as
/// described for CachedValue.
@MainActor
@propertyWrapper
public struct CachedRange<Index: RangeIndex, Value: Codable & Sendable & Equatable>:
    DynamicProperty
{
    @Environment(\.sanguine) private var client
    @State private var slot: ModelSlot<RangeModel<Index, Value>>
    private let identity: ModelIdentity
    private let make: @MainActor @Sendable (SanguineClient) -> RangeModel<Index, Value>

    /// Creates the property for a query and a range.
    public nonisolated init(_ query: RangeQuery<Index, Value>, in range: ClosedRange<Index>) {
        _slot = State(initialValue: ModelSlot())
        identity = ModelIdentity(query.identity, range)
        make = { $0.model(query, in: range) }
    }

    /// The known values of the range.
    public var wrappedValue: RangeValues<Index, Value> { projectedValue.state }

    /// The model.
    ///
    /// It can be set to another range, until the view passes a new one.
    public var projectedValue: RangeModel<Index, Value> {
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
