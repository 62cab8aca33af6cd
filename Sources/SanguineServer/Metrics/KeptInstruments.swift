import Synchronization

/// A cache of metrics instruments, because the registry locks and allocates to create one.
///
/// Mutable state: `known`, guarded by the mutex; bounded like the registry's series.
final class KeptInstruments<Series: Hashable & Sendable, Instrument: Sendable>: Sendable {
    private let known = Mutex<[Series: Instrument]>([:])
    private let make: @Sendable (Series) -> Instrument

    /// Creates an empty cache.
    ///
    /// - Parameter make: Creates the instrument of a series.
    init(_ make: @escaping @Sendable (Series) -> Instrument) { self.make = make }

    subscript(series: Series) -> Instrument {
        if let found = known.withLock({ $0[series] }) { return found }
        let made = make(series)
        known.withLock { known in
            // Concurrent calls may create an instrument twice; the registry uses the same series.
            if known.count < OpenMetricsRegistry.defaultSeriesLimit { known[series] = made }
        }
        return made
    }

    /// The number of cached instruments, for tests.
    var count: Int { known.withLock { $0.count } }
}
