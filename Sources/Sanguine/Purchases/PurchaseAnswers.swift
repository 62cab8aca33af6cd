import OrderedCollections
import SanguineModel
import Synchronization

/// The server's answers to a user's purchases, for the callers that wait for them.
///
/// Mutable state: `state`, protected by its mutex, which is never held during another call.
final class PurchaseAnswers: Sendable {
    /// The maximum number of answers that no caller has read; the oldest are forgotten first.
    static let limit = 100

    private struct State {
        /// By the id of the operation.
        var answers: OrderedDictionary<Identifier, PurchaseAnswer> = [:]
        /// The transactions that were reported to the app's analytics.
        var reported: OrderedSet<String> = []
    }

    private let state = Mutex(State())

    /// Stores the answer to an operation.
    ///
    /// - Returns: Whether it is the first one for its transaction in this process.
    func received(_ answer: PurchaseAnswer, for operation: Identifier) -> Bool {
        state.withLock { state in
            state.answers[operation] = answer
            state.answers.removeFirst(max(0, state.answers.count - Self.limit))
            let isFirst = state.reported.append(answer.transactionId).inserted
            state.reported.removeFirst(max(0, state.reported.count - Self.limit))
            return isFirst
        }
    }

    /// Returns the answer to an operation; `nil` if it could not be read.
    func answer(to operation: Identifier) -> PurchaseAnswer? {
        state.withLock { $0.answers[operation] }
    }
}
