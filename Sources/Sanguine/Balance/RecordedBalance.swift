public import SanguineModel

/// A balance from the server, and the time at which it reached this device.
public struct RecordedBalance: Hashable, Codable, Sendable {
    /// The server's balance, without calls in progress.
    public let balance: Balance
    /// The time at which it was received, by the device's clock.
    public let receivedAt: Timestamp

    /// Creates a recorded balance, for a fake or a preview.
    public init(balance: Balance, receivedAt: Timestamp) {
        self.balance = balance
        self.receivedAt = receivedAt
    }
}

/// The part of a function's answer that concerns the balance.
struct CallCost: Hashable, Sendable {
    let charged: Int64
    let available: Int64
    let held: Int64
    let head: Int64
    let cached: Bool
    /// The part of the charge that replaces units of a quota; it is not learned, because it may not
    /// recur.
    var tokensInstead: Int64 = 0
}
