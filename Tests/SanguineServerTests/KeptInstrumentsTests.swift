import CoreMetrics
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Reused instruments", .bounded)
struct KeptInstrumentsTests {
    @Test func `an instrument is created once, however often it is used`() {
        let made = WatchedState<[String]>([])
        let registry = OpenMetricsRegistry()
        let kept = KeptInstruments<String, Counter> { name in
            made.withLock { $0.append(name) }
            return Counter(label: name, factory: registry)
        }
        for name in ["a", "b", "a", "a"] { kept[name].increment() }
        #expect(made.value == ["a", "b"])
        #expect(registry.render().contains("a_total 3"))
        #expect(registry.render().contains("b_total 1"))
    }

    @Test func `no more instruments are kept than the registry exposes`() {
        let registry = OpenMetricsRegistry()
        let kept = KeptInstruments<Int, Counter> { number in
            Counter(label: "n", dimensions: [("n", "\(number)")], factory: registry)
        }
        for number in 0..<(OpenMetricsRegistry.defaultSeriesLimit + 10) {
            kept[number].increment()
        }
        #expect(kept.count == OpenMetricsRegistry.defaultSeriesLimit)
    }
}
