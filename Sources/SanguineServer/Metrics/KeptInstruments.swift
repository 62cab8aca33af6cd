import Synchronization

/// Instruments of metrics by what tells them apart, made once and kept: making one takes the
/// registry's lock and allocates.
///
/// Mutable state: `known`, guarded by the mutex; bounded, as the registry's series are.
final class KeptInstruments<Series: Hashable & Sendable, Instrument: Sendable>: Sendable {
    private let known = Mutex<[Series: Instrument]>([:])
    private let make: @Sendable (Series) -> Instrument

    /// Creates a table of none.
    ///
    /// - Parameter make: Makes the instrument of a series.
    init(_ make: @escaping @Sendable (Series) -> Instrument) { self.make = make }

    subscript(series: Series) -> Instrument {
        if let found = known.withLock({ $0[series] }) { return found }
        let made = make(series)
        known.withLock { known in
            // Two may make the same instrument; the registry gives both the same series.
            if known.count < OpenMetricsRegistry.defaultSeriesLimit { known[series] = made }
        }
        return made
    }

    /// How many are kept, for tests.
    var count: Int { known.withLock { $0.count } }
}
