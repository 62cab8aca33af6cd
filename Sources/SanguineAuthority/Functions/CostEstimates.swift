import SanguineModel
import Synchronization

/// What calls of each function cost lately: an exponentially weighted mean of what was charged.
///
/// Kept in memory: after a restart the estimates begin with a guess again, and learn within calls.
final class CostEstimates: Sendable {
    /// How much the newest charge counts.
    static let weight = 0.2

    // Guarded by the mutex; bounded by the number of functions in the configuration.
    private let means = Mutex<[String: Double]>([:])

    func learn(_ charged: Int64, of function: String) {
        means.withLock { means in
            let mean = means[function] ?? Double(charged)
            means[function] = mean + Self.weight * (Double(charged) - mean)
        }
    }

    /// The mean, rounded up, or `nil` before the first call.
    func estimate(of function: String) -> Int64? {
        means.withLock { $0[function] }.map { Int64($0.rounded(.up)) }
    }
}
