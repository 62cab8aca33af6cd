import Histogram

/// How long something took, how often: percentiles in a bounded space.
///
/// The counts, 12 KiB, are made with the first duration: most names of an app never get one.
struct DurationHistogram: Sendable {
    private var histogram: Histogram<UInt32>?
    private(set) var longest = Duration.zero
    private(set) var slowCount = 0

    /// Counts one that took so long.
    mutating func record(_ duration: Duration) {
        let bounded = min(max(.zero, duration), MetricsLimits.longestDuration)
        // One that took less than a microsecond counts as 0.
        var histogram = take() ?? Self.empty
        histogram.record(UInt64(bounded.microseconds))
        self.histogram = histogram
        longest = max(longest, duration)
        if duration > MetricsLimits.slow { slowCount += 1 }
    }

    /// The percentiles of what was recorded; `nil` if nothing was.
    var percentiles: MetricsSummary.Percentiles? {
        guard let histogram else { return nil }
        func at(_ percentile: Double) -> Duration {
            min(.microseconds(histogram.valueAtPercentile(percentile)), longest)
        }
        return MetricsSummary.Percentiles(p50: at(50), p90: at(90), p99: at(99), max: longest)
    }

    /// What the counts take, in bytes.
    var footprint: Int { histogram?.estimatedFootprintInBytes ?? 0 }

    // Leaves no second reference behind, so that recording changes the counts where they are.
    private mutating func take() -> Histogram<UInt32>? {
        defer { histogram = nil }
        return histogram
    }

    private static var empty: Histogram<UInt32> {
        Histogram(
            highestTrackableValue: UInt64(MetricsLimits.longestDuration.microseconds),
            numberOfSignificantValueDigits: .two
        )
    }
}

extension Duration {
    /// Whole microseconds, rounded down.
    var microseconds: Int64 {
        components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
    }
}
