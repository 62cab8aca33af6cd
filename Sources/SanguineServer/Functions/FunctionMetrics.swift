import Metrics

/// Counts function calls, and measures the time to the first part of streamed ones.
struct FunctionMetrics: Sendable {
    private struct Series: Hashable {
        var function: String
        var label: String
    }

    private let calls: KeptInstruments<Series, Counter>
    private let answers: KeptInstruments<Series, Counter>
    private let firstParts: KeptInstruments<String, Timer>

    init(_ factory: any MetricsFactory) {
        calls = KeptInstruments { series in
            let labels = [("function", series.function), ("outcome", series.label)]
            return Counter(label: "function_calls", dimensions: labels, factory: factory)
        }
        answers = KeptInstruments { series in
            let labels = [("function", series.function), ("from", series.label)]
            return Counter(label: "function_answers", dimensions: labels, factory: factory)
        }
        firstParts = KeptInstruments { function in
            Timer(
                label: "function_first_part_seconds",
                dimensions: [("function", function)],
                factory: factory
            )
        }
    }

    /// Counts a run that ended.
    func ended(_ function: String, _ outcome: String) {
        calls[Series(function: function, label: outcome)].increment()
    }

    /// Counts a call that was answered.
    func answered(_ function: String, _ origin: String) {
        answers[Series(function: function, label: origin)].increment()
    }

    /// Records the time until a streamed run produced its first part.
    func began(_ function: String, _ time: Duration) {
        firstParts[function].recordNanoseconds(time.wholeNanoseconds)
    }
}
