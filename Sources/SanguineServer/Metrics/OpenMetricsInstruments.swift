import CoreMetrics
import Synchronization

/// The value of one series.
///
/// Frequently executed code stores an instrument and does not access the registry again.
///
/// Mutable state: the value of a counter or gauge is one atomic. A histogram's counts and sum are
/// guarded by its mutex, so that a scrape sees consistent values.
protocol OpenMetricsInstrument: AnyObject, Sendable {
    /// Appends the series' samples.
    func append(to text: inout String, family: String, labels: String)
}

/// A number that only increases.
///
/// Negative increments are ignored, because the format forbids them.
final class OpenMetricsCounter: OpenMetricsInstrument, CounterHandler {
    private let value = Atomic<UInt64>(0)

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        value.wrappingAdd(UInt64(amount), ordering: .relaxed)
    }

    func reset() { value.store(0, ordering: .relaxed) }

    func append(to text: inout String, family: String, labels: String) {
        OpenMetricsText.appendSample(
            family + "_total",
            labels: labels,
            value: String(value.load(ordering: .relaxed)),
            to: &text
        )
    }
}

/// A number that only increases, and that is read from another component.
final class OpenMetricsCount: OpenMetricsInstrument {
    private let read: @Sendable () -> UInt64

    init(_ read: @escaping @Sendable () -> UInt64) { self.read = read }

    func append(to text: inout String, family: String, labels: String) {
        OpenMetricsText.appendSample(
            family + "_total",
            labels: labels,
            value: String(read()),
            to: &text
        )
    }
}

/// A number that may increase and decrease, and that is read from another component.
final class OpenMetricsReading: OpenMetricsInstrument {
    private let read: @Sendable () -> Double?

    init(_ read: @escaping @Sendable () -> Double?) { self.read = read }

    func append(to text: inout String, family: String, labels: String) {
        OpenMetricsText.appendSample(
            family,
            labels: labels,
            value: OpenMetricsText.number(read() ?? .nan),
            to: &text
        )
    }
}

/// A floating-point number that only increases.
final class OpenMetricsFloatingPointCounter: OpenMetricsInstrument, FloatingPointCounterHandler {
    private let value = AtomicDouble()

    func increment(by amount: Double) {
        guard amount > 0, amount.isFinite else { return }
        value.add(amount)
    }

    func reset() { value.store(0) }

    func append(to text: inout String, family: String, labels: String) {
        OpenMetricsText.appendSample(
            family + "_total",
            labels: labels,
            value: OpenMetricsText.number(value.load()),
            to: &text
        )
    }
}

/// A number that may increase and decrease: meters, and recorders that do not aggregate.
final class OpenMetricsGauge: OpenMetricsInstrument, MeterHandler, RecorderHandler {
    private let value = AtomicDouble()

    func set(_ value: Int64) { self.value.store(Double(value)) }
    func set(_ value: Double) { self.value.store(value) }
    func increment(by amount: Double) { value.add(amount) }
    func decrement(by amount: Double) { value.add(-amount) }
    func record(_ value: Int64) { self.value.store(Double(value)) }
    func record(_ value: Double) { self.value.store(value) }

    func append(to text: inout String, family: String, labels: String) {
        OpenMetricsText.appendSample(
            family,
            labels: labels,
            value: OpenMetricsText.number(value.load()),
            to: &text
        )
    }
}

/// Counts of observations within fixed bounds: timers and aggregating recorders.
final class OpenMetricsHistogram: OpenMetricsInstrument, TimerHandler, RecorderHandler {
    private struct State {
        var counts: [UInt64]  // One per bound, then one for all larger values.
        var sum = 0.0
        var sawNegative = false
    }

    private let bounds: [Double]
    private let boundLabels: [String]
    private let state: Mutex<State>

    /// Creates an empty histogram; the bounds must be finite and in ascending order.
    init(bounds: [Double]) {
        self.bounds = bounds
        boundLabels = (bounds + [.infinity]).map { "le=\"\(OpenMetricsText.number($0))\"" }
        state = Mutex(State(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(max(0, duration)) / 1e9) }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard !value.isNaN else { return }
        // A linear search: of about a dozen bounds, the first few cover most values.
        let index = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { state in
            state.counts[index] += 1
            state.sum += value
            if value < 0 { state.sawNegative = true }
        }
    }

    func append(to text: inout String, family: String, labels: String) {
        let snapshot = state.withLock { $0 }
        var cumulative: UInt64 = 0
        for (label, count) in zip(boundLabels, snapshot.counts) {
            cumulative += count
            OpenMetricsText.appendSample(
                family + "_bucket",
                labels: labels,
                extraLabel: label,
                value: String(cumulative),
                to: &text
            )
        }
        // The format does not permit a sum that may decrease, so sum and count are omitted.
        guard !snapshot.sawNegative else { return }
        OpenMetricsText.appendSample(
            family + "_count",
            labels: labels,
            value: String(cumulative),
            to: &text
        )
        OpenMetricsText.appendSample(
            family + "_sum",
            labels: labels,
            value: OpenMetricsText.number(snapshot.sum),
            to: &text
        )
    }
}

/// A `Double` that threads share without a lock.
private final class AtomicDouble: Sendable {
    private let bits = Atomic<UInt64>(0)

    func load() -> Double { Double(bitPattern: bits.load(ordering: .relaxed)) }

    func store(_ value: Double) { bits.store(value.bitPattern, ordering: .relaxed) }

    func add(_ amount: Double) {
        var current = bits.load(ordering: .relaxed)
        while true {
            let next = (Double(bitPattern: current) + amount).bitPattern
            let (exchanged, original) = bits.weakCompareExchange(
                expected: current,
                desired: next,
                ordering: .relaxed
            )
            if exchanged { return }
            current = original
        }
    }
}
