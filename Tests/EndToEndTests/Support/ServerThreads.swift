import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting

/// The threads and messages of an account as its feed has them, with its balance and its ledger.
struct ServerThreads: Sendable {
    private(set) var threads: [RecordID: ChatThread] = [:]
    /// The messages of each thread, in their order; also those whose thread is deleted.
    private(set) var messages: [RecordID: [ChatMessage]] = [:]
    let balance: Balance
    /// The changes of the balance, oldest first.
    let ledger: [LedgerEntry]

    /// Reads the whole feed of a guest.
    init(of guest: API.Guest, _ api: API) async throws {
        balance = try await api.balance(of: guest)
        ledger = try await api.ledger(of: guest)
        var since: Int64 = 0
        var hasMore = true
        while hasMore {
            let path = "/v1/sync/pull?since=\(since)&limit=1000"
            let page: PullAnswer = try await api.send(.GET, path, token: guest.token).decode()
            for change in page.changes { try take(change) }
            hasMore = page.hasMore
            since = page.next
        }
        for id in messages.keys { messages[id]?.sort { $0.position < $1.position } }
    }

    private mutating func take(_ change: RecordChange) throws {
        guard !change.deleted, let value = change.value?.encoded else { return }
        let record = RecordValue(json: Data(value))
        switch change.collection {
        case ChatThread.collection.name:
            threads[change.id] = try record.record(ChatThread.self, id: change.id)
        case ChatMessage.collection.name:
            let message = try record.record(ChatMessage.self, id: change.id)
            messages[message.thread, default: []].append(message)
        default: break
        }
    }

    /// All messages, thread by thread.
    var all: [ChatMessage] { messages.values.flatMap { $0 } }

    /// The number of answers that are being made.
    var making: Int { all.count { $0.state == .making } }

    /// The question and the answer of each call.
    var calls: [String: [ChatMessage]] { Dictionary(grouping: all) { $0.call ?? "" } }

    /// Everything that must not be, in words; empty if all is well.
    ///
    /// - Parameter grant: The amount that the account began with; it had no other income.
    /// - Returns: The faults.
    func faults(grant: Int64) -> [String] {
        var faults: [String] = []
        for (key, messages) in calls where messages.map(\.role) != [.user, .assistant] {
            faults.append("the call '\(key)' has the messages \(messages.map(\.id.text))")
        }
        for message in all where message.state == .making {
            faults.append("'\(message.id.text)' is still being made")
        }
        for (id, messages) in messages {
            let positions = messages.map(\.position)
            guard let thread = threads[id] else {
                faults.append("the messages \(messages.map(\.id.text)) have no thread")
                continue
            }
            if thread.messages != messages.count || thread.lastPosition < positions.last ?? 0 {
                faults.append("the thread \(id.text) counts \(thread.messages) messages")
            }
            if Set(positions).count < positions.count {
                faults.append("the thread \(id.text) has a position twice")
            }
            for pair in zip(messages, messages.dropFirst())
            where pair.1.role == .assistant && pair.0.id != question(of: pair.1) {
                faults.append("'\(pair.1.id.text)' does not follow its question")
            }
        }
        let charges = all.compactMap(\.charged).filter { $0 != 0 }
        let captures = ledger.filter { $0.kind == .capture && $0.amount != 0 }.map { -$0.amount }
        if charges.sorted() != captures.sorted() {
            faults.append(
                "\(charges.count) messages say that \(charges.reduce(0, +)) was charged, and the "
                    + "ledger has \(captures.count) charges of \(captures.reduce(0, +))"
            )
        }
        if balance.held != 0 { faults.append("\(balance.held) is still held") }
        if balance.available != grant - charges.reduce(0, +) {
            faults.append("\(balance.available) of \(grant) is left")
        }
        return faults
    }

    private func question(of answer: ChatMessage) -> RecordID? {
        answer.call.flatMap { ChatMessage.question(of: $0) }
    }
}
