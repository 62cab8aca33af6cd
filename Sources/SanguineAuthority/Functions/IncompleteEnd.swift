import SanguineModel

/// The end of a call without a complete answer, as far as its price depends on it.
///
/// | The call | `onCompletion` | `onStart` |
/// |---|---|---|
/// | was not sent | nothing | nothing |
/// | fails at its upstream before the first part | nothing | nothing |
/// | is cancelled by its caller before the first part | nothing | the price |
/// | fails, or times out, after the first part | nothing | the price |
/// | is cancelled by its caller after the first part | the price | the price |
/// | is lost: its server crashed, or its hold expired | nothing | the price |
///
/// The number of calls that callers cancel without a charge is limited, see ``AbandonedCalls``.
///
/// A failure before the first part is not such an end: ``CallEnd/failed(_:)`` releases the hold. A
/// price by usage charges the output, regardless of the moment.
struct IncompleteEnd: Hashable, Sendable {
    /// Whether the call was sent upstream, or had begun to compute.
    var wasSent: Bool
    /// Whether a part of the answer was produced.
    var hasParts: Bool
    /// Whether the caller cancelled it, by a request or by disconnecting.
    var isByCaller: Bool

    /// The end of a call that its caller cancelled after it was sent, before the first part.
    static let abandoned = IncompleteEnd(wasSent: true, hasParts: false, isByCaller: true)

    /// The end of a call that was sent, and whose answer is unknown.
    static let lost = IncompleteEnd(wasSent: true, hasParts: true, isByCaller: false)
}

extension ChargeMoment {
    /// Returns whether a flat price, or a unit, is charged for a call with this end.
    func charges(_ end: IncompleteEnd) -> Bool {
        guard end.wasSent else { return false }
        return switch self {
        case .onStart: true
        case .onCompletion: end.isByCaller && end.hasParts
        }
    }
}

extension Price {
    /// Returns the charge for a cost, without units of a quota.
    func charge(_ cost: Int64, for end: IncompleteEnd) -> Int64 {
        guard end.wasSent else { return 0 }
        if kind == .fixed, !(charged ?? .onStart).charges(end) { return 0 }
        return cost
    }
}

extension Price.QuotaPrice {
    /// The moment that charges the units, or the tokens instead of them.
    var moment: ChargeMoment { charged ?? .onCompletion }
}
