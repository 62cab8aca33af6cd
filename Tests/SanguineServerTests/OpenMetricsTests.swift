import CoreMetrics
import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("OpenMetrics", .bounded)
struct OpenMetricsTests {
    private let registry = OpenMetricsRegistry()

    /// The lines of the exposition without the process's metrics.
    private func lines(of registry: OpenMetricsRegistry) -> [String] {
        registry.render().split(separator: "\n").map { String($0) }
            .filter { !$0.contains("process_") }
    }

    @Test func `an exposition ends with EOF and a line feed`() {
        #expect(registry.render().hasSuffix("\n# EOF\n"))
        #expect(!registry.render().contains("\n\n"))
    }

    @Test func `a counter's samples have the suffix total, and its family does not`() {
        for label in ["requests", "errors_total"] {
            Counter(label: label, factory: registry).increment(by: 3)
        }
        let lines = lines(of: registry)
        #expect(lines.contains("# TYPE requests counter"))
        #expect(lines.contains("requests_total 3"))
        #expect(lines.contains("# TYPE errors counter"))
        #expect(lines.contains("errors_total 3"))
    }

    @Test func `a counter never decreases`() {
        let counter = Counter(label: "requests", factory: registry)
        counter.increment(by: 5)
        counter.increment(by: -3)
        let sum = FloatingPointCounter(label: "sum", factory: registry)
        sum.increment(by: 1.5)
        sum.increment(by: -1.0)
        sum.increment(by: Double.nan)
        #expect(lines(of: registry).contains("requests_total 5"))
        #expect(lines(of: registry).contains("sum_total 1.5"))
    }

    @Test func `a gauge goes up and down`() {
        let meter = Meter(label: "open", factory: registry)
        meter.set(5)
        meter.increment(by: 2.5)
        meter.decrement(by: 1.0)
        Gauge(label: "last", factory: registry).record(-4)
        #expect(lines(of: registry).contains("open 6.5"))
        #expect(lines(of: registry).contains("last -4.0"))
    }

    @Test func `a timer is a histogram of seconds with cumulative buckets`() {
        let timer = Timer(label: "http.duration", factory: registry)
        timer.recordMilliseconds(1)
        timer.recordMilliseconds(30)
        timer.recordSeconds(90)
        let lines = lines(of: registry)
        #expect(lines.contains("# TYPE http_duration_seconds histogram"))
        #expect(lines.contains("# UNIT http_duration_seconds seconds"))
        #expect(lines.contains(#"http_duration_seconds_bucket{le="0.0005"} 0"#))
        #expect(lines.contains(#"http_duration_seconds_bucket{le="0.001"} 1"#))
        #expect(lines.contains(#"http_duration_seconds_bucket{le="0.05"} 2"#))
        #expect(lines.contains(#"http_duration_seconds_bucket{le="60.0"} 2"#))
        #expect(lines.contains(#"http_duration_seconds_bucket{le="+Inf"} 3"#))
        #expect(lines.contains("http_duration_seconds_count 3"))
        #expect(lines.contains("http_duration_seconds_sum 90.031"))
    }

    @Test func `a histogram with a negative value has no sum`() {
        let recorder = Recorder(label: "change", factory: registry)
        recorder.record(-1)
        recorder.record(2)
        let lines = lines(of: registry)
        #expect(lines.contains(#"change_bucket{le="+Inf"} 2"#))
        #expect(!lines.contains { $0.hasPrefix("change_sum") || $0.hasPrefix("change_count") })
    }

    @Test func `labels are escaped, sorted and truncated`() {
        let long = String(repeating: "x", count: 1_000)
        let dimensions = [("z", "a\\b\"c\nd"), ("a-b", "1"), ("le", "2"), ("9", long)]
        Counter(label: "odd name!", dimensions: dimensions, factory: registry).increment()
        let cut = String(repeating: "x", count: 128)
        let sample = #"odd_name__total{_9="\#(cut)",a_b="1",le_="2",z="a\\b\"c\nd"} 1"#
        #expect(lines(of: registry).contains(sample))
    }

    @Test func `the order of labels does not create a second series`() {
        let one = [("a", "1"), ("b", "2")]
        Counter(label: "c", dimensions: one, factory: registry).increment()
        Counter(label: "c", dimensions: one.reversed(), factory: registry).increment()
        #expect(lines(of: registry).contains(#"c_total{a="1",b="2"} 2"#))
    }

    @Test func `a name has one type, and metrics of other types are dropped and counted`() {
        Counter(label: "c", factory: registry).increment()
        Meter(label: "c", factory: registry).set(7)
        Meter(label: "c_total", factory: registry).set(7)
        Meter(label: "process_open_fds", factory: registry).set(7)
        let lines = lines(of: registry)
        #expect(lines.filter { $0.hasPrefix("# TYPE c") } == ["# TYPE c counter"])
        #expect(lines.contains("sanguine_metrics_dropped_series_total 3"))
    }

    @Test func `series beyond the limit are dropped and counted`() {
        let registry = OpenMetricsRegistry(seriesLimit: 2)
        for user in 1...5 {
            Counter(label: "c", dimensions: [("u", "\(user)")], factory: registry).increment()
        }
        let lines = lines(of: registry)
        #expect(lines.filter { $0.hasPrefix("c_total") }.count == 2)
        #expect(lines.contains("sanguine_metrics_dropped_series_total 3"))
    }

    @Test func `a destroyed metric frees its series with its last owner`() {
        let registry = OpenMetricsRegistry(seriesLimit: 1)
        let first = Counter(label: "c", factory: registry)
        let second = Counter(label: "c", factory: registry)
        second.increment()
        first.destroy()
        #expect(lines(of: registry).contains("c_total 1"))
        second.destroy()
        #expect(!lines(of: registry).contains("# TYPE c counter"))
        Meter(label: "c", factory: registry).set(1)
        #expect(lines(of: registry).contains("c 1.0"))
    }

    @Test func `numbers have the format of OpenMetrics`() {
        #expect(OpenMetricsText.number(.infinity) == "+Inf")
        #expect(OpenMetricsText.number(-.infinity) == "-Inf")
        #expect(OpenMetricsText.number(.nan) == "NaN")
        #expect(OpenMetricsText.number(1) == "1.0")
    }

    @Test func `concurrent increments are all counted`() async {
        await withTaskGroup { group in
            for _ in 0..<8 {
                group.addTask { [registry] in
                    for _ in 0..<1_000 {
                        Counter(label: "c", factory: registry).increment()
                        FloatingPointCounter(label: "f", factory: registry).increment(by: 0.5)
                        Timer(label: "t", factory: registry).recordNanoseconds(1)
                    }
                }
            }
        }
        let lines = lines(of: registry)
        #expect(lines.contains("c_total 8000"))
        #expect(lines.contains("f_total 4000.0"))
        #expect(lines.contains("t_seconds_count 8000"))
    }

    @Test func `spaces and parentheses in a program's name do not shift the fields`() {
        let scale = ProcessMetrics.Scale(ticksPerSecond: 100, bytesPerPage: 4_096, bootTime: 1_000)
        let fields = (3...52).map { String($0 * 10) }.joined(separator: " ")
        let reading = ProcessMetrics.reading(ofStat: "7 (a) b (c) \(fields)", scale: scale)
        let expected = ProcessMetrics.Reading(
            cpuSeconds: 2.9,
            residentBytes: 240 * 4_096,
            startTime: 1_002.2
        )
        #expect(reading == expected)
        #expect(ProcessMetrics.reading(ofStat: "7 (a) S 1", scale: scale) == nil)
        #expect(ProcessMetrics.reading(ofStat: "", scale: scale) == nil)
    }

    #if os(Linux)
    @Test func `the process's memory, descriptors and start are exposed on Linux`() throws {
        let lines = registry.render().split(separator: "\n")
        for name in [
            "process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes",
            "process_start_time_seconds",
        ] {
            let line = try #require(lines.first { $0.hasPrefix(name + " ") })
            let value = try #require(Double(line.dropFirst(name.count + 1)))
            #expect(value >= 0)
            #expect(name != "process_resident_memory_bytes" || value > 1_000_000)
        }
    }
    #endif

    /// Each sample appears once, the samples of a family follow its type, and values are escaped.
    @Test(arguments: 1...8)
    func `an exposition of random metrics is valid`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let registry = OpenMetricsRegistry(seriesLimit: 50)
        let names = [
            "a", "a_total", "a.b", "a_b", "b_sum", "b", "7", "", "é", "b_bucket", "b_count",
        ]
        let values = ["", "x", "\"", "\\", "\n", "{}", "é"]
        for _ in 0..<200 {
            let name = names[Int.random(in: names.indices, using: &random)]
            let dimensions = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                (
                    names[Int.random(in: names.indices, using: &random)],
                    values[Int.random(in: values.indices, using: &random)]
                )
            }
            switch Int.random(in: 0...3, using: &random) {
            case 0: Counter(label: name, dimensions: dimensions, factory: registry).increment()
            case 1: Meter(label: name, dimensions: dimensions, factory: registry).set(1)
            case 2: Recorder(label: name, dimensions: dimensions, factory: registry).record(2)
            default:
                Timer(label: name, dimensions: dimensions, factory: registry).recordSeconds(1)
            }
        }
        var samples: Set<Substring> = []
        var families: Set<Substring> = []
        var family: Substring = ""
        let text = registry.render()
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast(2) {
            let words = line.split(separator: " ")
            if line.hasPrefix("# TYPE ") {
                family = words[2]
                #expect(families.insert(family).inserted, "\(family) occurs twice")
            } else if line.hasPrefix("# UNIT ") {
                #expect(words[2] == family && family.hasSuffix("_" + words[3]))
            } else {
                #expect(line.hasPrefix(family))
                #expect(line.contains(/^[a-zA-Z_][a-zA-Z0-9_]*(\{.*\})? [0-9.e+-]+$/))
                let sample = line[..<(line.lastIndex(of: " ") ?? line.endIndex)]
                #expect(samples.insert(sample).inserted, "\(sample) occurs twice")
            }
        }
    }
}
