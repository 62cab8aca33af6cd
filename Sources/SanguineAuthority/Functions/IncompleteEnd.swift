import SanguineModel

/// How a call ended without a whole answer, as far as its price depends on that.
///
/// | The call | `onCompletion` | `onStart` |
/// |---|---|---|
/// | did not leave | nothing | nothing |
/// | fails at its upstream before the first part | nothing | nothing |
/// | is ended by its caller before the first part | nothing | the price |
/// | fails, or runs out of time, after the first part | nothing | the price |
/// | is ended by its caller after the first part | the price | the price |
/// | is lost: its server died, or its hold expired | nothing | the price |
///
/// Calls that are ended by their caller at no charge are limited, see ``AbandonedCalls``.
///
/// A failure before the first part is no such end: ``CallEnd/failed(_:)`` releases the hold. A
/// price by usage charges what was made, whatever the moment.
struct IncompleteEnd: Hashable, Sendable {
    /// Whether the call had left for its upstream, or had begun to compute.
    var wasSent: Bool
    /// Whether a part of the answer had been made.
    var hasParts: Bool
    /// Whether the caller has ended it: by a request, or by closing the connection.
    var isByCaller: Bool

    /// The end of a call that its caller ended after it was sent, before the first part.
    static let abandoned = IncompleteEnd(wasSent: true, hasParts: false, isByCaller: true)

    /// The end of a call that was sent, and of which no answer is known.
    static let lost = IncompleteEnd(wasSent: true, hasParts: true, isByCaller: false)
}

extension ChargeMoment {
    /// Whether a flat price, or a unit, is charged for a call that ended so.
    func charges(_ end: IncompleteEnd) -> Bool {
        guard end.wasSent else { return false }
        return switch self {
        case .onStart: true
        case .onCompletion: end.isByCaller && end.hasParts
        }
    }
}

extension Price {
    /// What is charged of a cost, units of a quota aside.
    func charge(_ cost: Int64, for end: IncompleteEnd) -> Int64 {
        guard end.wasSent else { return 0 }
        if kind == .fixed, !(charged ?? .onStart).charges(end) { return 0 }
        return cost
    }
}

extension Price.QuotaPrice {
    /// When the units are charged, or the tokens instead of them.
    var moment: ChargeMoment { charged ?? .onCompletion }
}

extension HoldRow {
    /// Whether a call that is lost after it was sent costs nothing: its end need not be awaited.
    var isFreeWhenLost: Bool {
        (chargeWhenCut ?? amount) == 0 && !(quota?.isKeptWhenLost ?? false)
    }
}
