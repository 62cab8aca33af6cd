import SanguineModel
import Synchronization

/// The recent cost of each function: an exponentially weighted mean of the charges.
///
/// Kept in memory: after a restart the estimates start from a guess, and adapt within a few calls.
final class CostEstimates: Sendable {
    /// The weight of the newest charge.
    static let weight = 0.2

    // Guarded by its mutex; bounded by the number of functions in the configuration.
    private let means = Mutex<[String: Double]>([:])

    func learn(_ charged: Int64, of function: String) {
        means.withLock { means in
            let mean = means[function] ?? Double(charged)
            means[function] = mean + Self.weight * (Double(charged) - mean)
        }
    }

    /// Returns the mean, rounded up, or `nil` before the first call.
    func estimate(of function: String) -> Int64? {
        means.withLock { $0[function] }.map { Int64($0.rounded(.up)) }
    }
}
