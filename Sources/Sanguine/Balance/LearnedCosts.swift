import SanguineModel

/// The recent costs of each function's calls, which predict the hold of the next one.
///
/// The prediction is the median of a function's last costs: an outlier moves it by one rank, no
/// matter how large it is. Each cost is stored with the error of its prediction.
///
/// Invariants: at most ``BalanceLimits/learnedFunctions`` functions with
/// ``BalanceLimits/learnedCalls`` costs each; no cost below zero.
struct LearnedCosts: Hashable, Codable, Sendable {
    private struct Sample: Hashable, Codable, Sendable {
        var cost: Int64
        /// The distance from the prediction; `nil` for the first cost, which had none.
        var error: Int64?
    }

    private struct Function: Hashable, Codable, Sendable {
        /// The newest last.
        var samples: [Sample] = []
        var lastUse: Int64 = 0

        /// The median, which is the lower of the two middle costs if their number is even.
        var median: Int64? {
            guard !samples.isEmpty else { return nil }
            return samples.map(\.cost).sorted()[(samples.count - 1) / 2]
        }
    }

    private var functions: [String: Function] = [:]
    private var uses: Int64 = 0

    /// The number of known functions.
    var count: Int { functions.count }

    /// Predicts the cost of a call of the function; `nil` if none was made yet.
    func expectedCost(of function: String) -> Int64? { functions[function]?.median }

    /// Returns the prediction for a function's next call, and how accurate such predictions were.
    func prediction(of function: String, orElse declared: Int64) -> PredictedCost {
        let samples = functions[function]?.samples ?? []
        let errors = samples.compactMap(\.error)
        return PredictedCost(
            expected: functions[function]?.median ?? declared,
            meanError: errors.isEmpty
                ? nil : errors.reduce(0) { $0 + Double($1) } / Double(errors.count),
            count: samples.count
        )
    }

    /// Records the cost of a call.
    ///
    /// Amounts that no server may charge are ignored.
    mutating func learn(_ cost: Int64, of name: String) {
        guard (0...WireLimits.amount).contains(cost) else { return }
        uses += 1
        var function = functions[name] ?? Function()
        let error = function.median.map { abs($0 - cost) }
        function.samples.append(Sample(cost: cost, error: error))
        function.samples.removeFirst(max(0, function.samples.count - BalanceLimits.learnedCalls))
        function.lastUse = uses
        functions[name] = function
        guard functions.count > BalanceLimits.learnedFunctions else { return }
        if let oldest = functions.min(by: { $0.value.lastUse < $1.value.lastUse })?.key {
            functions[oldest] = nil
        }
    }
}

/// The expected cost of a call, based on the costs of earlier calls.
public struct PredictedCost: Hashable, Sendable {
    /// The cost that is shown as held when the next call begins, in the balance's unit.
    ///
    /// The median of the last calls, or the declared cost of the function before its first call.
    public let expected: Int64
    /// The mean error of the predictions for those calls; `nil` without any.
    public let meanError: Double?
    /// The number of calls that the prediction is based on: at most 32.
    public let count: Int

    /// Creates a prediction, for a fake or a preview.
    public init(expected: Int64, meanError: Double?, count: Int) {
        self.expected = expected
        self.meanError = meanError
        self.count = count
    }
}
