import Foundation
import OrderedCollections
import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("The questions of a device, and the records that they wait for", .bounded)
struct PendingExchangesTests {
    private let epoch = Epoch("one")
    private let thread = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 7)))

    private func exchange(
        _ number: Int,
        in thread: RecordID? = nil,
        text: String = "When?",
        isWaiting: Bool = false
    ) throws -> PendingExchange {
        let now = Timestamp(millisecondsSince1970: Int64(number))
        var exchange = try #require(
            PendingExchange(
                key: "0199f3c8-0000-7000-8000-" + String(format: "%012d", number),
                in: thread ?? self.thread,
                of: "chat",
                MessageContent(.string(text)),
                attachments: [],
                at: now
            )
        )
        exchange.isWaiting = isWaiting
        return exchange
    }

    private func answer(_ exchange: PendingExchange) -> RecordKey {
        RecordKey(ChatMessage.collection.name, exchange.answer.id)
    }

    private var threadKey: RecordKey { RecordKey(ChatThread.collection.name, thread) }

    private func facts(
        _ states: [String: String] = [:],
        isWhole: Bool = true,
        hasThread: Bool = true,
        position: Int64 = 0
    ) -> PendingExchanges.Facts {
        PendingExchanges.Facts(
            states: states,
            threads: hasThread ? [thread] : [],
            isWhole: isWhole,
            position: position,
            epoch: epoch
        )
    }

    @Test func `a changed answer among a thousand questions reads two records`() throws {
        var exchanges = PendingExchanges()
        for number in 0..<1_000 { _ = exchanges.add(try exchange(number)) }
        let changed = try exchange(500)
        let other = RecordKey(ChatMessage.collection.name, RecordID.new())
        let inquiry = exchanges.inquiry(about: [answer(changed), other], at: 9, of: epoch)
        #expect(inquiry.answers == [changed] && inquiry.threads == [thread])
        #expect(inquiry.count == 2 && inquiry.others.isEmpty)
        #expect(exchanges.inquiry(about: [other], at: 9, of: epoch).isEmpty)
    }

    @Test func `a changed thread reads the thread, and none of its answers`() throws {
        var exchanges = PendingExchanges()
        for number in 0..<100 { _ = exchanges.add(try exchange(number)) }
        let inquiry = exchanges.inquiry(about: [threadKey], at: 9, of: epoch)
        #expect(inquiry.count == 1 && inquiry.others.count == 100)
        let seen = exchanges.reconcile(inquiry, with: facts())
        #expect(seen.changed.count == 100 && seen.records.isEmpty)
        #expect(exchanges.all.values.allSatisfy { $0.hadThread })
        let second = exchanges.inquiry(about: [threadKey], at: 9, of: epoch)
        #expect(exchanges.reconcile(second, with: facts()).changed.isEmpty)
        let gone = exchanges.reconcile(second, with: facts(hasThread: false))
        #expect(exchanges.isEmpty && gone.changed.count == 100 && gone.answered.isEmpty)
        #expect(exchanges.bytes == 0)
    }

    @Test func `questions whose end the base has reached are read after any change`() throws {
        var exchanges = PendingExchanges()
        for number in 0..<3 { _ = exchanges.add(try exchange(number)) }
        let (ended, later) = (exchanges.keys[0], exchanges.keys[1])
        for (key, head) in [(ended, Int64(5)), (later, 6)] {
            exchanges[key]?.head = head
            exchanges[key]?.epoch = epoch
        }
        let inquiry = exchanges.inquiry(about: [], at: 5, of: epoch)
        #expect(inquiry.answers.map(\.key) == [ended])
        let result = exchanges.reconcile(inquiry, with: facts([ended: "complete"], position: 5))
        #expect(result.answered == [ended] && exchanges.keys == [later, exchanges.keys[1]])
        #expect(exchanges.inquiry(about: [], at: 5, of: epoch).isEmpty)
    }

    @Test func `an exchange that has changed since it was read stays`() throws {
        var exchanges = PendingExchanges()
        let first = try exchange(1)
        _ = exchanges.add(first)
        let inquiry = exchanges.inquiry(about: [answer(first)], at: 0, of: epoch)
        exchanges[first.key]?.hadThread = true
        // It was read before the thread had arrived.
        let result = exchanges.reconcile(inquiry, with: facts(hasThread: false))
        #expect(result.changed.isEmpty && exchanges.keys == [first.key])
    }

    @Test func `questions beyond the size replace the oldest ones that were sent`() throws {
        let text = String(repeating: "x", count: 1_000)
        let size = try exchange(0, text: text).bytes
        var exchanges = PendingExchanges(limit: 10, byteLimit: 3 * size)
        let waiting = try exchange(0, text: text, isWaiting: true)
        #expect(exchanges.add(waiting) == [])
        for number in 1...2 { #expect(exchanges.add(try exchange(number, text: text)) == []) }
        #expect(exchanges.add(try exchange(3, text: text))?.map(\.key) == [try exchange(1).key])
        #expect(exchanges.keys.first == waiting.key && exchanges.bytes == 3 * size)
        for number in 4...9 { _ = exchanges.add(try exchange(number, text: text)) }
        #expect(exchanges.keys.count == 3 && exchanges.keys.first == waiting.key)
    }

    @Test func `a question is refused if all others wait for a network`() throws {
        let size = try exchange(0).bytes
        for (limit, byteLimit) in [(2, 100 * size), (100, 2 * size)] {
            var exchanges = PendingExchanges(limit: limit, byteLimit: byteLimit)
            for number in 0..<2 { _ = exchanges.add(try exchange(number, isWaiting: true)) }
            let before = exchanges.all
            #expect(exchanges.add(try exchange(2)) == nil)
            #expect(exchanges.all == before && exchanges.bytes == 2 * size)
        }
    }

    @Test func `a large answer replaces the oldest questions that were sent`() throws {
        let size = try exchange(0).bytes
        var exchanges = PendingExchanges(limit: 10, byteLimit: 3 * size)
        for number in 0..<3 { _ = exchanges.add(try exchange(number)) }
        let last = try exchange(2)
        let text = String(repeating: "x", count: size)
        exchanges[last.key]?.answer.set(MessageContent(.string(text)))
        #expect(exchanges.bytes == 4 * size)
        let trimmed = exchanges.trim().map(\.key)
        let oldest = try exchange(0).key
        #expect(trimmed == [oldest] && exchanges.bytes == 3 * size)
        let others = exchanges.trim()
        #expect(others.isEmpty)
    }
}
