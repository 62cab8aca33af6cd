import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("A question until the feed has brought it", .bounded)
struct PendingExchangeTests {
    private let epoch = Epoch("one")

    private func exchange(
        head: Int64? = nil,
        hadThread: Bool = false
    ) throws -> PendingExchange {
        let now = Timestamp(millisecondsSince1970: 1)
        var exchange = try #require(
            PendingExchange(
                key: Identifier(at: now).description,
                in: RecordID(Identifier(at: now)),
                of: "chat",
                MessageContent(["question": "When?"]),
                attachments: [],
                at: now
            )
        )
        (exchange.head, exchange.epoch, exchange.hadThread) = (head, epoch, hadThread)
        return exchange
    }

    @Test func `the question has the ids and the text that the server will store`() throws {
        let exchange = try exchange()
        #expect(exchange.question.id == ChatMessage.question(of: exchange.key))
        #expect(exchange.answer.id == ChatMessage.answer(of: exchange.key))
        #expect(exchange.question.text == "When?" && exchange.question.state == .complete)
        #expect(exchange.answer.state == .making && !exchange.hasEnded)
    }

    @Test func `a thread that was begun without a network has the area of its first question`()
        throws
    {
        let now = Timestamp(millisecondsSince1970: 1)
        let exchange = try #require(
            PendingExchange(
                key: Identifier(at: now).description,
                in: RecordID(Identifier(at: now)),
                of: "chat",
                MessageContent(question: ["question": "When?", "area": "love"]),
                area: "love",
                attachments: [],
                at: now
            )
        )
        #expect(ThreadContents.thread(of: [exchange, try self.exchange()])?.area == "love")
        #expect(exchange.question.text == "When?")
    }

    @Test(arguments: [
        (nil, false), ("making", false), ("complete", true), ("cut", true), ("failed", true),
    ])
    func `it ends when the base contains the end of the answer`(
        state: String?,
        isSettled: Bool
    ) throws {
        let facts = PendingExchange.Facts(answer: state, hasThread: state != nil)
        #expect(try exchange().isSettled(by: facts, at: 9, of: epoch) == isSettled)
    }

    @Test func `it ends when the base has reached the end of the call without its messages`()
        throws
    {
        let facts = PendingExchange.Facts(answer: nil, hasThread: true)
        let exchange = try exchange(head: 5)
        #expect(!exchange.isSettled(by: facts, at: 4, of: epoch))
        #expect(exchange.isSettled(by: facts, at: 5, of: epoch))
        // Numbers of another epoch cannot be compared.
        #expect(exchange.isSettled(by: facts, at: 1, of: Epoch("two")))
        #expect(!exchange.isSettled(by: facts, at: 1, of: nil))
    }

    @Test func `it ends with the deletion of its thread, unless it begins the thread`() throws {
        let facts = PendingExchange.Facts(answer: nil, hasThread: false)
        #expect(try exchange(hadThread: true).isSettled(by: facts, at: 1, of: epoch))
        #expect(try !exchange(hadThread: false).isSettled(by: facts, at: 1, of: epoch))
    }

    @Test func `a thread that is missing while records are restored was not deleted`() throws {
        var facts = PendingExchange.Facts(answer: nil, hasThread: false)
        facts.isWhole = false
        #expect(try !exchange(hadThread: true).isSettled(by: facts, at: 0, of: epoch))
    }

    @Test func `it is stored with all of its digits and restored equal`() throws {
        var exchange = try exchange(head: 7, hadThread: true)
        exchange.end(
            .complete,
            MessageContent(["price": .integer(9_007_199_254_740_993)]),
            reason: "stop",
            charged: 3,
            at: Timestamp(millisecondsSince1970: 2)
        )
        let data = try WireCoding.encode(exchange)
        #expect(try WireCoding.decodeRecords(PendingExchange.self, from: data) == exchange)
    }
}
