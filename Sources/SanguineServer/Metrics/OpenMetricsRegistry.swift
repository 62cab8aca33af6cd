public import CoreMetrics
import Synchronization

/// A backend for swift-metrics that exposes OpenMetrics 1.0 text.
///
/// ```swift
/// let registry = OpenMetricsRegistry()
/// MetricsSystem.bootstrap(registry)
/// Counter(label: "sanguine.requests", dimensions: [("route", "/v1/balance")]).increment()
/// print(registry.render())  // … sanguine_requests_total{route="/v1/balance"} 1 … # EOF
/// ```
///
/// Counters become counters, gauges and meters become gauges, and recorders become histograms.
/// Timers become histograms of seconds, with the suffix `_seconds`. Invalid characters in a name or
/// label become `_`.
///
/// Invariants:
/// 1. A sample's name belongs to one family, and a family has one type. A later metric with another
///    type is not exposed.
/// 2. There are at most `seriesLimit` series. Later ones are not exposed.
/// 3. A metric that is not exposed still works for its owner, and is counted in
///    `sanguine_metrics_dropped_series_total`.
public final class OpenMetricsRegistry: MetricsFactory, Sendable {
    /// The `Content-Type` of the text that ``render()`` returns.
    public static let contentType = OpenMetricsText.contentType

    /// The default of `seriesLimit`: 5,000 series, about 2 MB of memory.
    public static let defaultSeriesLimit = 5_000

    /// Upper bounds of a timer's buckets, in seconds: half a millisecond to a minute.
    public static let timerBounds: [Double] = [
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]

    /// Upper bounds of a recorder's buckets, in the recorded unit: one to a hundred million.
    public static let recorderBounds: [Double] = [
        1, 5, 10, 50, 100, 500, 1e3, 5e3, 1e4, 5e4, 1e5, 1e6, 1e7, 1e8,
    ]

    enum Kind: String {
        case counter, gauge, histogram

        /// The suffixes that a family of this kind reserves for sample names.
        var suffixes: [String] {
            switch self {
            case .counter: ["", "_total", "_created"]
            case .gauge: [""]
            case .histogram: ["", "_bucket", "_count", "_sum", "_created"]
            }
        }
    }

    private struct Series {
        let instrument: any OpenMetricsInstrument
        // The number of times it was created: one owner's `destroy` must not remove it for another.
        var owners = 1
    }

    private struct Family {
        let kind: Kind
        let unit: String
        var series: [String: Series] = [:]  // By the text of their labels.
    }

    private struct State {
        var families: [String: Family] = [:]
        var sampleNames: [String: String] = [:]  // Sample name to its family.
        var locations: [ObjectIdentifier: (family: String, labels: String)] = [:]

        /// Reserves the sample names of a family; returns false if another family uses one of them.
        mutating func reserve(_ name: String, for kind: Kind) -> Bool {
            if let family = families[name] { return family.kind == kind }
            let names = kind.suffixes.map { name + $0 }
            guard names.allSatisfy({ sampleNames[$0] == nil }) else { return false }
            for sample in names { sampleNames[sample] = name }
            return true
        }
    }

    private static let droppedFamily = "sanguine_metrics_dropped_series"

    // The only mutable state except the instruments. Locked for one lookup or change; the
    // instruments are read after it is unlocked.
    private let state: Mutex<State>
    private let dropped = OpenMetricsCounter()
    private let seriesLimit: Int
    private let process: ProcessMetrics

    /// Creates a registry with only the process's own metrics.
    ///
    /// - Parameter seriesLimit: The maximum number of series to expose. Default: 5,000.
    public init(seriesLimit: Int = OpenMetricsRegistry.defaultSeriesLimit) {
        self.seriesLimit = seriesLimit
        process = ProcessMetrics()
        var state = State()
        for name in ProcessMetrics.families + [Self.droppedFamily] {
            for suffix in Kind.counter.suffixes { state.sampleNames[name + suffix] = name }
        }
        self.state = Mutex(state)
    }

    /// Returns all series and the process's own metrics as OpenMetrics 1.0 text.
    public func render() -> String {
        let families = state.withLock { $0.families }
        var text = ""
        text.reserveCapacity(1 << 14)
        for (name, family) in families.sorted(by: { $0.key < $1.key }) {
            Self.appendHead(name, kind: family.kind, unit: family.unit, to: &text)
            for (labels, series) in family.series.sorted(by: { $0.key < $1.key }) {
                series.instrument.append(to: &text, family: name, labels: labels)
            }
        }
        Self.appendHead(Self.droppedFamily, kind: .counter, unit: "", to: &text)
        dropped.append(to: &text, family: Self.droppedFamily, labels: "")
        process.append(to: &text)
        text += "# EOF\n"
        return text
    }

    static func appendHead(_ name: String, kind: Kind, unit: String, to text: inout String) {
        text += "# TYPE \(name) \(kind.rawValue)\n"
        if !unit.isEmpty { text += "# UNIT \(name) \(unit)\n" }
    }

    private func instrument<Instrument: OpenMetricsInstrument>(
        _ label: String,
        _ dimensions: [(String, String)],
        _ kind: Kind,
        unit: String = "",
        make: () -> Instrument
    ) -> Instrument {
        var name = OpenMetricsText.metricName(label)
        // The format adds `_total` to a counter's samples itself.
        if kind == .counter, name.hasSuffix("_total"), name.utf8.count > 6 { name.removeLast(6) }
        if !unit.isEmpty, !name.hasSuffix("_" + unit) { name += "_" + unit }
        let labels = OpenMetricsText.labels(dimensions)
        let made = make()
        let found = state.withLock { state -> Instrument? in
            if var series = state.families[name]?.series[labels] {
                guard let known = series.instrument as? Instrument else { return nil }
                series.owners += 1
                state.families[name]?.series[labels] = series
                return known
            }
            guard state.locations.count < seriesLimit else { return nil }
            guard state.reserve(name, for: kind) else { return nil }
            state.families[name, default: Family(kind: kind, unit: unit)]
                .series[labels] = Series(instrument: made)
            state.locations[ObjectIdentifier(made)] = (name, labels)
            return made
        }
        if found == nil { dropped.increment(by: 1) }
        return found ?? made
    }

    private func destroy(_ handler: AnyObject) {
        state.withLock { state in
            let id = ObjectIdentifier(handler)
            guard let (name, labels) = state.locations[id],
                var series = state.families[name]?.series[labels]
            else { return }
            series.owners -= 1
            state.families[name]?.series[labels] = series.owners > 0 ? series : nil
            guard series.owners == 0 else { return }
            state.locations[id] = nil
            guard let family = state.families[name], family.series.isEmpty else { return }
            state.families[name] = nil
            for suffix in family.kind.suffixes { state.sampleNames[name + suffix] = nil }
        }
    }
}

extension OpenMetricsRegistry {
    /// Exposes a counter whose value is read at each scrape.
    ///
    /// - Parameters:
    ///   - label: Its name.
    ///   - read: Returns the count, which must not decrease; called without a lock.
    func expose(_ label: String, _ read: @escaping @Sendable () -> UInt64) {
        _ = instrument(label, [], .counter) { OpenMetricsCount(read) }
    }

    /// Exposes a gauge whose value is read at each scrape.
    ///
    /// - Parameters:
    ///   - label: Its name.
    ///   - read: Returns the value, or `nil`, exposed as `NaN`, if it is unknown; called without a
    ///     lock.
    func expose(gauge label: String, _ read: @escaping @Sendable () -> Double?) {
        _ = instrument(label, [], .gauge) { OpenMetricsReading(read) }
    }

    /// Creates a counter of integers.
    public func makeCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any CounterHandler {
        instrument(label, dimensions, .counter) { OpenMetricsCounter() }
    }

    /// Creates a counter of floating-point numbers.
    public func makeFloatingPointCounter(
        label: String,
        dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        instrument(label, dimensions, .counter) { OpenMetricsFloatingPointCounter() }
    }

    /// Creates a gauge.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        instrument(label, dimensions, .gauge) { OpenMetricsGauge() }
    }

    /// Creates a histogram, or a gauge of the last value if `aggregate` is false.
    public func makeRecorder(
        label: String,
        dimensions: [(String, String)],
        aggregate: Bool
    ) -> any RecorderHandler {
        guard aggregate else { return instrument(label, dimensions, .gauge) { OpenMetricsGauge() } }
        return instrument(label, dimensions, .histogram) {
            OpenMetricsHistogram(bounds: Self.recorderBounds)
        }
    }

    /// Creates a histogram of seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        instrument(label, dimensions, .histogram, unit: "seconds") {
            OpenMetricsHistogram(bounds: Self.timerBounds)
        }
    }

    /// Removes the counter once all its owners have destroyed it.
    public func destroyCounter(_ handler: any CounterHandler) { destroy(handler) }

    /// Removes the counter once all its owners have destroyed it.
    public func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {
        destroy(handler)
    }

    /// Removes the gauge once all its owners have destroyed it.
    public func destroyMeter(_ handler: any MeterHandler) { destroy(handler) }

    /// Removes the recorder once all its owners have destroyed it.
    public func destroyRecorder(_ handler: any RecorderHandler) { destroy(handler) }

    /// Removes the timer once all its owners have destroyed it.
    public func destroyTimer(_ handler: any TimerHandler) { destroy(handler) }
}
