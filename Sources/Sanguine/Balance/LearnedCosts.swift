import SanguineModel

/// What calls of each function have cost of late: how much to show as held for the next one.
///
/// An exponentially weighted mean, `mean + (cost - mean) × 3/10`, kept in thousandths so that it is
/// the same on every machine. The first cost is the first mean.
///
/// Invariants: at most ``BalanceLimits/learnedFunctions`` functions; no mean below zero.
struct LearnedCosts: Hashable, Codable, Sendable {
    private struct Mean: Hashable, Codable, Sendable {
        var thousandths: Int64
        var lastUse: Int64
    }

    private var means: [String: Mean] = [:]
    private var uses: Int64 = 0

    /// How many functions are known.
    var count: Int { means.count }

    /// What a call of the function will probably cost, rounded up; `nil` if none was made yet.
    func expectedCost(of function: String) -> Int64? {
        means[function].map { ($0.thousandths + 999) / 1_000 }
    }

    /// Takes in what a call has cost.
    ///
    /// Amounts that no server may charge are ignored.
    mutating func learn(_ cost: Int64, of function: String) {
        guard (0...WireLimits.amount).contains(cost) else { return }
        uses += 1
        let sample = cost * 1_000
        let mean = means[function]?.thousandths
        let next = mean.map { $0 + (sample - $0) * 3 / 10 } ?? sample
        means[function] = Mean(thousandths: next, lastUse: uses)
        guard means.count > BalanceLimits.learnedFunctions else { return }
        if let oldest = means.min(by: { $0.value.lastUse < $1.value.lastUse })?.key {
            means[oldest] = nil
        }
    }
}
