import SanguineModel
import Synchronization

extension Purchases {
    /// Hands a store's transactions to the server: those that are unfinished, and later ones.
    ///
    /// ```swift
    /// Task { await client.purchases.follow(.appStore) { print($0) } }
    /// ```
    ///
    /// Call it once, at each launch: the store repeats what an earlier process did not finish. A
    /// transaction is finished after the server has it, for this account or, as
    /// ``PurchaseReport/taken(transaction:)``, for another one. Returns when the task is cancelled,
    /// or when the store's sequences end.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - report: Called for each transaction when its end is known. Default: nothing.
    public nonisolated(nonsending) func follow(
        _ store: some PurchaseStore,
        report: @escaping @Sendable (PurchaseReport) async -> Void = { _ in }
    ) async {
        let following = TransactionFollower(purchases: self, report: report)
        await following.run(store)
    }
}

/// Carries out the decisions of a ``TransactionDesk``.
///
/// Mutable state: `desk`, protected by its mutex, which is never held during another call.
private final class TransactionFollower: Sendable {
    private let purchases: Purchases
    private let report: @Sendable (PurchaseReport) async -> Void
    private let desk = Mutex(TransactionDesk())

    init(purchases: Purchases, report: @escaping @Sendable (PurchaseReport) async -> Void) {
        (self.purchases, self.report) = (purchases, report)
    }

    func run(_ store: some PurchaseStore) async {
        await withDiscardingTaskGroup { group in
            // Subscribed first, so that nothing falls between the two.
            let updates = store.updates()
            group.addTask { await self.handle(store.unfinished()) }
            group.addTask { await self.handle(updates) }
        }
    }

    private func handle(_ transactions: AsyncStream<StoreTransaction>) async {
        await withDiscardingTaskGroup { group in
            for await transaction in transactions
            where desk.withLock({ $0.received(.init(transaction)) }) {
                group.addTask { await self.handle(transaction) }
            }
        }
    }

    private func handle(_ transaction: StoreTransaction) async {
        while true {
            let result: Result<PurchaseAnswer, SanguineError>
            do throws(SanguineError) {
                result = .success(try await purchases.credit(signedTransaction: transaction.signed))
            } catch {
                result = .failure(error)
            }
            switch desk.withLock({ $0.ended(.init(transaction), result) }) {
            case .finish(let end):
                await transaction.finish()
                return await report(end)
            case .keep(let end): return await report(end)
            case .leave: return
            case .retry(let failures):
                let configuration = purchases.users.services.configuration
                var random = configuration.random
                let schedule = BalanceLimits.settling
                let pause = schedule.backoff(afterFailures: failures, using: &random)
                guard (try? await configuration.delay.sleep(for: pause)) != nil else { return }
            }
        }
    }
}
