public import SanguineModel

/// A balance that the server gave, and when it reached this device.
public struct RecordedBalance: Hashable, Codable, Sendable {
    /// The server's balance, without calls in flight.
    public let balance: Balance
    /// When it was received, by the device's clock.
    public let receivedAt: Timestamp

    /// Creates a recorded balance, as a fake or a preview needs it.
    public init(balance: Balance, receivedAt: Timestamp) {
        self.balance = balance
        self.receivedAt = receivedAt
    }
}

/// The part of a function's answer that is about the balance.
struct CallAnswer: Hashable, Sendable {
    let charged: Int64
    let available: Int64
    let held: Int64
    let head: Int64
    let cached: Bool
    /// The part of the charge that replaces units of a quota; it is not learned, as it may not
    /// recur.
    var tokensInstead: Int64 = 0
}
