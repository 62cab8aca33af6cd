import SanguineModel

/// Decides which of a store's transactions are handed to the server, and when they are finished.
///
/// The store returns a transaction as often as it likes: at each launch until it is finished, and
/// again when it is refunded. Each is handed over once at a time.
///
/// Each method is one event; nothing here waits, sends or finishes.
///
/// Invariants:
///
/// 1. A transaction is finished only after the server has it, for this or another account.
/// 2. At most ``limit`` transactions are in progress; the store returns the others at the next
///    launch.
/// 3. A transaction that the server has refused is not sent again by this process, unless its state
///    has changed.
struct TransactionDesk: Sendable {
    /// The maximum number of transactions in progress.
    static let limit = 100
    /// The number of attempts for a transaction that could not be stored on this device.
    static let attempts = 5

    /// A state of a transaction: a refund is another one than the purchase.
    struct Key: Hashable, Sendable {
        let id: String
        let isRevoked: Bool

        init(_ transaction: StoreTransaction) {
            (id, isRevoked) = (transaction.id, transaction.isRevoked)
        }

        private init(id: String, isRevoked: Bool) { (self.id, self.isRevoked) = (id, isRevoked) }

        /// The other state of the transaction.
        var other: Key { Key(id: id, isRevoked: !isRevoked) }
    }

    /// What to do after an attempt.
    enum Action: Hashable, Sendable {
        /// Finish the transaction, then report.
        case finish(PurchaseReport)
        /// Leave it unfinished, and report.
        case keep(PurchaseReport)
        /// Leave it unfinished: the user or the client is gone, and the outbox has it.
        case leave
        /// Try again later.
        case retry(afterFailures: Int)
    }

    /// The failures of each transaction in progress.
    private var failures: [Key: Int] = [:]
    /// The transactions that are not sent again: they were finished or refused.
    private var done: Set<Key> = []

    init() {}

    /// The number of transactions in progress.
    var inProgress: Int { failures.count }

    /// Records that the store has returned a transaction; returns whether to hand it to the server.
    mutating func received(_ key: Key) -> Bool {
        guard failures[key] == nil, !done.contains(key), failures.count < Self.limit else {
            return false
        }
        failures[key] = 0
        return true
    }

    /// Records the end of an attempt.
    mutating func ended(
        _ key: Key,
        _ result: Result<PurchaseAnswer, SanguineError>
    ) -> Action {
        let action = action(key, result)
        switch action {
        case .retry(let count): failures[key] = count
        case .leave: failures[key] = nil
        case .finish, .keep:
            failures[key] = nil
            // The other state may come again: a refund can be reversed, and granted again.
            done.remove(key.other)
            // A full set is emptied: the server recognizes a transaction that is sent again.
            if done.count >= Self.limit { done = [] }
            done.insert(key)
        }
        return action
    }

    private func action(
        _ key: Key,
        _ result: Result<PurchaseAnswer, SanguineError>
    ) -> Action {
        switch result {
        case .success(let answer): return .finish(.credited(answer))
        // The other account has received the tokens.
        case .failure(.problem(let problem)) where problem.code == .purchaseTaken:
            return .finish(.taken(transaction: key.id))
        case .failure(.problem(let problem)):
            return .keep(.refused(transaction: key.id, problem))
        case .failure(.userChanged), .failure(.closed), .failure(.cancelled): return .leave
        case .failure(let error):
            let count = failures[key, default: 0] + 1
            guard count < Self.attempts else {
                return .keep(.postponed(transaction: key.id, error))
            }
            return .retry(afterFailures: count)
        }
    }
}
