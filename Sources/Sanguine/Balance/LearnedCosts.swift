import SanguineModel

/// What calls of each function have cost of late: how much to show as held for the next one.
///
/// The median of a function's last costs: one that is out of the way moves it by one rank, however
/// far it is out. Beside each cost stands by how much the prediction had missed it.
///
/// Invariants: at most ``BalanceLimits/learnedFunctions`` functions with
/// ``BalanceLimits/learnedCalls`` costs each; no cost below zero.
struct LearnedCosts: Hashable, Codable, Sendable {
    private struct Sample: Hashable, Codable, Sendable {
        var cost: Int64
        /// How far the prediction was from it; `nil` for the first, for which there was none.
        var error: Int64?
    }

    private struct Function: Hashable, Codable, Sendable {
        /// The newest last.
        var samples: [Sample] = []
        var lastUse: Int64 = 0

        /// The lower of the two in the middle, if there are two.
        var median: Int64? {
            guard !samples.isEmpty else { return nil }
            return samples.map(\.cost).sorted()[(samples.count - 1) / 2]
        }
    }

    private var functions: [String: Function] = [:]
    private var uses: Int64 = 0

    /// How many functions are known.
    var count: Int { functions.count }

    /// What a call of the function will probably cost; `nil` if none was made yet.
    func expectedCost(of function: String) -> Int64? { functions[function]?.median }

    /// What is predicted of a function's next call, and how good such predictions were.
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

    /// Takes in what a call has cost.
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

/// What a call will probably cost, by what such calls have cost before.
public struct PredictedCost: Hashable, Sendable {
    /// The cost that is shown as held when the next call begins, in the balance's unit.
    ///
    /// The median of the last calls, or what the function declares as long as there was none.
    public let expected: Int64
    /// By how much the predictions for those calls have missed on average; `nil` if there was none.
    public let meanError: Double?
    /// How many calls that rests on: at most 32.
    public let count: Int

    /// Creates a prediction, as a fake or a preview needs it.
    public init(expected: Int64, meanError: Double?, count: Int) {
        self.expected = expected
        self.meanError = meanError
        self.count = count
    }
}
