import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// The questions that one user has asked in threads on this device, with their answers, until the
/// feed has brought them.
///
/// They are shown together with the records, so that a question stands in its thread at once, also
/// without a network. An exchange ends in one of three ways: the base contains its answer; the base
/// has reached the end of the call without it, because the messages were removed; or the call was
/// refused, which leaves no message.
///
/// Invariants:
///
/// 1. An exchange is stored before its call is sent, and again before the app reads its answer.
/// 2. There are at most ``MessageLimits/pending``, of at most ``MessageLimits/pendingBytes``.
/// 3. A change that could not be stored is stored with the next one.
///
/// The balance knows which calls were sent, and stores it before a call is sent. It is therefore
/// not stored here as well.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during a call; and the
/// stored state, by `stored`, which is held during the write.
final class PendingMessages: Sendable {
    private struct Guarded {
        var exchanges = PendingExchanges()
        /// The last refusal of a call in each thread, until the thread is asked again.
        var refusals: OrderedDictionary<RecordID, SanguineError> = [:]
        /// The threads that this process has deleted last: a call that begins only afterwards is
        /// not shown.
        var deleted: OrderedSet<RecordID> = []
        /// The keys of exchanges that differ from the stored ones.
        var unwritten: Set<String> = []
        /// Whether all exchanges must be compared with the records: at the start, after the base
        /// was replaced, and after a failure.
        var mustReconcileAll = false
        var isReconcilingAll = false
        var hasEnded = false
        var onChange: (@Sendable (Set<RecordKey>) -> Void)?

        /// Remembers a refusal; `nil` forgets the last one.
        mutating func refuse(_ thread: RecordID, _ error: SanguineError?) {
            refusals[thread] = nil
            guard let error else { return }
            if refusals.count >= MessageLimits.page { refusals.removeFirst() }
            refusals[thread] = error
        }

        /// Notes that exchanges were removed; returns the records whose readers are notified.
        mutating func forget(_ removed: [PendingExchange]) -> Set<RecordKey> {
            for exchange in removed { unwritten.insert(exchange.key) }
            return removed.reduce(into: []) { $0.formUnion($1.records) }
        }
    }

    private static let listName = "messages"

    private let guarded = Mutex(Guarded())
    private let stored = Mutex(())
    private let store: ClientStore
    private let balance: BalanceKeeper
    private let logger: Logger
    private let clock: any WallClock

    /// Restores the exchanges that an earlier process left.
    init(
        store: ClientStore,
        balance: BalanceKeeper,
        configuration: SanguineClient.Configuration
    ) {
        self.store = store
        self.balance = balance
        logger = configuration.logger
        clock = configuration.clock
        let (restored, changed) = restore()  // The changed ones are stored with the next change.
        guarded.withLock { guarded in
            guarded.exchanges = restored
            guarded.unwritten = changed
            guarded.mustReconcileAll = !restored.isEmpty
        }
        balanceChanged()
    }

    /// Sets the closure that receives the keys of changed messages and threads.
    func onChange(_ body: @escaping @Sendable (Set<RecordKey>) -> Void) {
        guarded.withLock { $0.onChange = body }
    }

    /// Ends all changes: the user has left.
    func end() {
        guarded.withLock { guarded in
            guarded.hasEnded = true
            guarded.exchanges = PendingExchanges()
            guarded.onChange = nil
        }
    }

    // MARK: - Reading

    /// All exchanges, in the order of their questions.
    var all: [PendingExchange] { guarded.withLock { Array($0.exchanges.all.values) } }

    /// Returns the exchanges of a thread, in the order of their questions.
    func exchanges(in thread: RecordID) -> [PendingExchange] {
        guarded.withLock { $0.exchanges.exchanges(in: thread) }
    }

    /// Returns why the thread's last call left no message; `nil` if it was not refused.
    func refusal(in thread: RecordID) -> SanguineError? {
        guarded.withLock { $0.refusals[thread] }
    }

    // MARK: - Calls

    /// Shows the question of a call, and an answer that is to be made.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `overloaded` if other questions, which wait for
    ///   a network, take all the room.
    func began(_ exchange: PendingExchange) throws(SanguineError) {
        var hasRoom = true
        update { guarded in
            guarded.refusals[exchange.thread] = nil
            guard !guarded.deleted.contains(exchange.thread) else { return [] }
            guard let removed = guarded.exchanges.add(exchange) else {
                hasRoom = false
                return []
            }
            guarded.unwritten.insert(exchange.key)
            return guarded.forget(removed).union(exchange.records)
        }
        if !hasRoom { throw .problem(.tooManyQuestions) }
    }

    /// Records that a call that waited for a network is being sent.
    func sends(_ key: String) { update(key) { $0.exchanges[key]?.isWaiting = false } }

    /// Records the answer to a call.
    ///
    /// - Parameters:
    ///   - key: The call's key.
    ///   - body: The answer as it was received.
    ///   - head: The feed's number that contains it.
    ///   - epoch: The epoch of that number.
    func answered(_ key: String, _ body: Data, head: Int64, _ epoch: Epoch?) {
        guard contains(key),
            let result = try? WireCoding.decodeRecords(FunctionResult<JSONValue>.self, from: body)
        else { return }
        let (content, now) = (MessageContent(result.output), clock.now())
        update(key) { guarded in
            guarded.exchanges[key]?.end(
                .complete,
                content,
                reason: result.finishReason,
                charged: result.charged,
                at: now
            )
            guarded.exchanges[key]?.head = head
            guarded.exchanges[key]?.epoch = epoch
        }
    }

    /// Records that a call ended without its whole answer.
    func failed(_ key: String, _ failure: CallFailure) {
        let problem = failure.error.asProblem
        switch failure.verdict {
        case .refused: return refused(key, failure.error)
        case .released: end(key, .failed, problem, failure)
        case .charged: end(key, .cut, problem, failure)
        // The balance asks for its outcome.
        case .unknown, .again: return
        }
    }

    private func end(
        _ key: String,
        _ state: ChatMessage.State,
        _ problem: Problem?,
        _ failure: CallFailure
    ) {
        let now = clock.now()
        update(key) { guarded in
            guard guarded.exchanges[key]?.hasEnded == false else { return }
            guarded.exchanges[key]?.end(
                state,
                reason: problem?.code.rawValue,
                charged: problem?.charged ?? 0,
                at: now
            )
            guard let head = failure.head else { return }
            guarded.exchanges[key]?.head = head
            guarded.exchanges[key]?.epoch = failure.epoch
        }
    }

    /// Stores the part of a cut answer that was read.
    func keep(_ text: String, of key: String) {
        guard !text.isEmpty else { return }
        let content = MessageContent(.string(text))
        update(key) { guarded in
            guard let answer = guarded.exchanges[key]?.answer, answer.state == .cut,
                answer.text.isEmpty
            else { return }
            guarded.exchanges[key]?.answer.set(content)
        }
    }

    /// Removes the messages of a call that never took effect, and remembers the reason.
    func refused(_ key: String, _ error: SanguineError) {
        update(key) { guarded in
            guard let exchange = guarded.exchanges[key] else { return }
            guarded.exchanges[key] = nil
            guarded.refuse(exchange.thread, error)
        }
    }

    /// Remembers why a call in a thread was not begun.
    func refused(in thread: RecordID, _ error: SanguineError?) {
        update { guarded in
            guarded.refuse(thread, error)
            return [RecordKey(ChatMessage.collection.name, thread)]
        }
    }

    /// Removes the calls of a thread that was deleted, and shows no further ones.
    func delete(_ thread: RecordID) {
        update { guarded in
            if guarded.deleted.count >= MessageLimits.pending { guarded.deleted.removeFirst() }
            guarded.deleted.append(thread)
            let exchanges = guarded.exchanges.exchanges(in: thread)
            for exchange in exchanges { guarded.exchanges[exchange.key] = nil }
            return guarded.forget(exchanges)
        }
    }

    /// Removes the messages of a call that was withdrawn.
    func remove(_ key: String) { update(key) { $0.exchanges[key] = nil } }

    // MARK: - Bases

    /// Removes the exchanges that the records contain by now.
    ///
    /// Reads only records of the exchanges that the change concerns. If these are many, they are
    /// read in the background.
    ///
    /// - Parameters:
    ///   - changed: The changed records; `nil` for all.
    ///   - records: The user's records.
    func reconcile(_ changed: Set<RecordKey>?, with records: UserRecords) {
        guard guarded.withLock({ !$0.exchanges.isEmpty }) else { return }
        let (position, epoch) = records.outbox.read { ($0.state.position, $0.state.outbox.epoch) }
        let inquiry = guarded.withLock { guarded -> PendingExchanges.Inquiry? in
            guard let changed, !guarded.mustReconcileAll else {
                guarded.mustReconcileAll = true
                return nil
            }
            let inquiry = guarded.exchanges.inquiry(about: changed, at: position, of: epoch)
            guarded.mustReconcileAll = inquiry.count > MessageLimits.reconcileStep
            return guarded.mustReconcileAll ? nil : inquiry
        }
        guard let inquiry else { return reconcileAll(with: records) }
        if !reconcile(inquiry, with: records) {
            guarded.withLock { $0.mustReconcileAll = true }
        }
    }

    /// Compares all exchanges with the records, in steps.
    private func reconcileAll(with records: UserRecords) {
        let mustStart = guarded.withLock { guarded in
            defer { guarded.isReconcilingAll = true }
            return !guarded.isReconcilingAll
        }
        guard mustStart else { return }
        Task { [weak records] in
            while let keys = nextKeys() {
                var left = keys[...]
                while !left.isEmpty {
                    let step = left.prefix(MessageLimits.reconcileStep)
                    left = left.dropFirst(step.count)
                    let inquiry = guarded.withLock { $0.exchanges.inquiry(of: step) }
                    guard let records, reconcile(inquiry, with: records) else {
                        // The next change tries again.
                        return guarded.withLock { guarded in
                            (guarded.mustReconcileAll, guarded.isReconcilingAll) = (true, false)
                        }
                    }
                    await giveTurn()
                }
            }
        }
    }

    /// Returns the keys of all exchanges; `nil` if they no longer need to be compared.
    private func nextKeys() -> [String]? {
        guarded.withLock { guarded in
            guard guarded.mustReconcileAll else {
                guarded.isReconcilingAll = false
                return nil
            }
            guarded.mustReconcileAll = false
            return guarded.exchanges.keys
        }
    }

    /// Reads what an inquiry names; returns `false` if the records cannot be read.
    private func reconcile(
        _ inquiry: PendingExchanges.Inquiry,
        with records: UserRecords
    ) -> Bool {
        guard !inquiry.isEmpty else { return true }
        guard let facts = Self.facts(for: inquiry, in: records) else { return false }
        var answered: [String] = []
        update { guarded in
            let result = guarded.exchanges.reconcile(inquiry, with: facts)
            guarded.unwritten.formUnion(result.changed)
            answered = result.answered
            return result.records
        }
        persistLater()
        guard !answered.isEmpty else { return true }
        // Their threads have the answers, so the app will not look for them among the open calls.
        Task { [balance, answered] in
            for key in answered { await balance.resultRead(key) }
        }
        return true
    }

    private static func facts(
        for inquiry: PendingExchanges.Inquiry,
        in records: UserRecords
    ) -> PendingExchanges.Facts? {
        let facts = records.read(at: nil) { contents -> PendingExchanges.Facts? in
            guard contents.records != nil else { return nil }  // They are not open yet.
            var facts = PendingExchanges.Facts(
                isWhole: contents.state.isWhole,
                position: contents.state.position,
                epoch: contents.state.outbox.epoch
            )
            for exchange in inquiry.answers {
                let key = RecordKey(ChatMessage.collection.name, exchange.answer.id)
                let state = try contents.base.record(key)?.value["state"]?.string
                facts.states[exchange.key] = state
            }
            for thread in inquiry.threads {
                let key = RecordKey(ChatThread.collection.name, thread)
                if try contents.value(key) != nil { facts.threads.insert(thread) }
            }
            return facts
        }
        return facts ?? nil
    }

    /// Records which calls the balance contains by now: their ends are in the feed as well.
    func balanceChanged() {
        let open = guarded.withLock { guarded in
            guarded.exchanges.all.values.filter { $0.head == nil && !$0.isWaiting }.map(\.key)
        }
        guard !open.isEmpty else { return }
        let (pending, mark) = balance.settlement
        for key in open where !pending.contains(key) {
            update(key) { guarded in
                guard guarded.exchanges[key]?.head == nil else { return }
                guarded.exchanges[key]?.head = mark.number
                guarded.exchanges[key]?.epoch = mark.epoch
            }
        }
    }

    // MARK: - Changes

    private func contains(_ key: String) -> Bool { guarded.withLock { $0.exchanges[key] != nil } }

    /// Changes an exchange, and notifies the readers of its messages.
    private func update(_ key: String, _ body: (inout Guarded) -> Void) {
        update { guarded in
            let before = guarded.exchanges[key]
            body(&guarded)
            let after = guarded.exchanges[key]
            guard before != after else { return [] }
            guarded.unwritten.insert(key)
            let removed = guarded.forget(guarded.exchanges.trim())
            return removed.union((after ?? before)?.records ?? [])
        }
    }

    /// Makes a change, and notifies the readers of the records that it returns.
    private func update(_ body: (inout Guarded) -> Set<RecordKey>) {
        let (tell, keys) = guarded.withLock { guarded in
            (guarded.onChange, guarded.hasEnded ? [] : body(&guarded))
        }
        if !keys.isEmpty { tell?(keys) }
    }

    // MARK: - Disk

    /// Writes changes since the last write; they are durable when this returns.
    ///
    /// A failure is logged, and reported in ``SanguineClient/storeReport``. The changes are written
    /// with the next one, and the feed brings the messages in any case.
    func persist() {
        do throws(StoreError) {
            try write()
        } catch .closed {
            // The user has signed out in the meantime.
        } catch {
            logger.error(
                "Messages of calls could not be stored, and are stored with the next change.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    /// Like ``persist()``, but throws, for a caller that continues only if they are stored.
    func write() throws(StoreError) {
        try stored.withLock { _ throws(StoreError) in
            let (keys, changed) = guarded.withLock { guarded in
                let changed = guarded.hasEnded ? [] : guarded.unwritten
                guarded.unwritten = []
                let exchanges = changed.map { ($0, guarded.exchanges[$0]) }
                return (guarded.exchanges.keys, exchanges)
            }
            guard !changed.isEmpty else { return }
            do throws(StoreError) {
                var states: [String: Data?] = [Self.listName: try Self.encode(keys)]
                for (key, exchange) in changed {
                    var data: Data?
                    if let exchange { data = try Self.encode(exchange) }
                    states.updateValue(data, forKey: Self.name(key))
                }
                try store.setStates(states)
            } catch {
                guarded.withLock { $0.unwritten.formUnion(changed.map(\.0)) }
                throw error
            }
        }
    }

    private static func encode(_ value: some Encodable) throws(StoreError) -> Data {
        do { return try WireCoding.encode(value) } catch { throw .writeFailed("\(error)") }
    }

    /// Writes changes in the background.
    private func persistLater() {
        guard guarded.withLock({ !$0.unwritten.isEmpty }) else { return }
        Task { persist() }
    }

    /// Returns the stored exchanges, and the keys of those that must be stored again or removed.
    private func restore() -> (PendingExchanges, Set<String>) {
        var exchanges = PendingExchanges()
        guard let list = try? store.state(Self.listName),
            let keys = try? WireCoding.decode([String].self, from: list)
        else { return (exchanges, []) }
        var changed = Set(keys)
        for key in keys.suffix(MessageLimits.pending) {
            guard let data = try? store.state(Self.name(key)),
                var exchange = try? WireCoding.decodeRecords(PendingExchange.self, from: data)
            else { continue }
            let wasWaiting = exchange.isWaiting
            if wasWaiting {
                // Without a call, the process ended before it was stored, so it was never sent.
                guard let call = balance.openCall(key) else { continue }
                exchange.isWaiting = call.state == .waiting
            }
            guard let removed = exchanges.add(exchange) else { continue }
            for other in removed { changed.insert(other.key) }
            if exchange.isWaiting == wasWaiting { changed.remove(key) }
        }
        return (exchanges, changed)
    }

    private static func name(_ key: String) -> String { "message \(key)" }
}
