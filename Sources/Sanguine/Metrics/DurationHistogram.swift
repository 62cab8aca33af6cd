/// A histogram of durations, which computes percentiles in bounded space.
///
/// The width of a bucket grows with its values: one microsecond at first, and then
/// ``MetricsLimits/bucketsPerDoubling`` buckets for each doubling. The counts, 12 KiB, are
/// allocated with the first duration, because most names of an app never get one.
package struct DurationHistogram: Sendable {
    /// The counts by bucket; empty before the first duration.
    private var counts: [UInt32] = []
    package private(set) var longest = Duration.zero
    private(set) var slowCount = 0

    /// Creates an empty histogram.
    package init() {}

    /// Records a duration.
    package mutating func record(_ duration: Duration) {
        let bounded = min(max(.zero, duration), MetricsLimits.longestDuration)
        if counts.isEmpty { counts = Self.none }
        // Less than a microsecond counts as 0.
        let bucket = Self.bucket(of: Int(bounded.microseconds))
        if counts[bucket] < .max { counts[bucket] += 1 }
        longest = max(longest, duration)
        if duration > MetricsLimits.slow { slowCount += 1 }
    }

    /// The percentiles of the recorded durations; `nil` if there are none.
    var percentiles: MetricsSummary.Percentiles? {
        guard let p50 = percentile(50), let p90 = percentile(90), let p99 = percentile(99) else {
            return nil
        }
        return MetricsSummary.Percentiles(p50: p50, p90: p90, p99: p99, max: longest)
    }

    /// The number of recorded durations.
    package var count: Int { counts.reduce(0) { $0 + Int($1) } }

    /// Returns the duration at a percentile, by the nearest rank and rounded up to the end of its
    /// bucket, but never longer than ``longest``; `nil` if no duration was recorded.
    package func percentile(_ percent: Int) -> Duration? {
        guard !counts.isEmpty else { return nil }
        var missing = max(1, (count * percent + 99) / 100)
        for (bucket, count) in counts.enumerated() {
            missing -= Int(count)
            if missing <= 0 { return min(.microseconds(Self.last(in: bucket)), longest) }
        }
        return longest
    }

    /// Adds the durations of another histogram.
    package mutating func merge(_ other: DurationHistogram) {
        guard !other.counts.isEmpty else { return }
        if counts.isEmpty { counts = Self.none }
        for (bucket, count) in other.counts.enumerated() where count > 0 {
            counts[bucket] += min(count, .max - counts[bucket])
        }
        longest = max(longest, other.longest)
        slowCount += other.slowCount
    }

    /// Counts the durations between bounds.
    ///
    /// - Parameter bounds: The bounds in ascending order. A bound belongs to the range before it.
    /// - Returns: One count more than there are bounds; the last one is of longer durations.
    package func counts(between bounds: [Duration]) -> [Int] {
        var result = Array(repeating: 0, count: bounds.count + 1)
        var range = 0
        for (bucket, count) in counts.enumerated() where count > 0 {
            let last = Duration.microseconds(Self.last(in: bucket))
            while range < bounds.count, bounds[range] < last { range += 1 }
            result[range] += Int(count)
        }
        return result
    }

    /// The size of the counts in bytes.
    var footprint: Int { counts.count * MemoryLayout<UInt32>.stride }

    // MARK: - Buckets

    private static var none: [UInt32] {
        let last = bucket(of: Int(MetricsLimits.longestDuration.microseconds))
        return Array(repeating: 0, count: last + 1)
    }

    /// Returns the bucket of a duration in microseconds.
    private static func bucket(of microseconds: Int) -> Int {
        let size = MetricsLimits.bucketsPerDoubling
        let doublings = max(0, microseconds.bitWidth - (microseconds | 1).leadingZeroBitCount)
        let shift = max(0, doublings - (size.trailingZeroBitCount + 1))
        return shift * size + microseconds >> shift
    }

    /// Returns the longest duration of a bucket in microseconds.
    private static func last(in bucket: Int) -> Int {
        let size = MetricsLimits.bucketsPerDoubling
        let shift = max(0, bucket / size - 1)
        return (bucket - shift * size + 1) << shift - 1
    }
}

extension Duration {
    /// Whole microseconds, rounded down.
    var microseconds: Int64 {
        components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
    }
}
