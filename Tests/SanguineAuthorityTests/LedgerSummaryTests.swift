import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Summaries by the labels of charges: the model, the API key and the tag.
@Suite("Labels of charges", .bounded)
struct LedgerSummaryTests {
    private static let tagged = ChargeLabels(tag: "trip")

    private func transfer(_ amount: Int64, _ labels: ChargeLabels) -> Transfer {
        Transfer(
            id: .numbered(1),
            account: .numbered(2),
            seq: 1,
            kind: .capture,
            amount: amount,
            availableAfter: 0,
            heldAfter: 0,
            reason: "ask",
            at: ManualClock().now(),
            function: "ask",
            labels: labels
        )
    }

    private func query(_ items: (name: String, value: String)...) throws -> SummaryQuery {
        try SummaryQuery(WireQuery(items))
    }

    private func call(
        _ world: CallWorld,
        _ who: Identity,
        _ key: String,
        tag: String?,
        as reader: AnswerForm = .plain
    ) async throws -> CallReply {
        var submission = Submission(
            key: key,
            fingerprint: Fingerprint("call", key),
            content: Result<FunctionRequest<JSONValue>, Problem>.success(.init(input: [:]))
        )
        submission.labels = ChargeLabels(tag: tag)
        return try await world.runner.call("f", who, submission, as: reader)
    }

    @Test func `labels survive their stored form, and no labels have none`() {
        let labels = ChargeLabels(model: "m", key: "k", tag: "t")
        #expect(labels.text.flatMap { ChargeLabels(text: $0) } == labels)
        #expect(ChargeLabels().text == nil)
        #expect(ChargeLabels(text: #"{"tag":"t","newer":1}"#) == ChargeLabels(tag: "t"))
        #expect(ChargeLabels(text: "damaged") == nil)
    }

    @Test func `a long name of a model is shortened to whole characters`() {
        let long = String(repeating: "ü", count: 100)
        let labels = ChargeLabels().asking(long)
        #expect(labels.model == String(repeating: "ü", count: 64))
        #expect(labels.asking(nil) == labels)
    }

    @Test(arguments: LedgerSummary.Grouping.allCases)
    func `charges are summed by each grouping`(by: LedgerSummary.Grouping) {
        var sums = LedgerSums(by: by, zone: .gmt)
        sums.add(transfer(2, ChargeLabels(model: "a", key: "k1", tag: "x")))
        sums.add(transfer(3, ChargeLabels(model: "b", key: "k1", tag: "x")))
        sums.add(transfer(4, ChargeLabels()))

        let charged: [Int64] =
            switch by {
            case .day, .function: [9]
            case .model: [2, 3, 4]
            case .key, .tag: [5, 4]
            }
        #expect(sums.items.map(\.charged) == charged)
    }

    @Test func `pages have every group once, and that without a key last`() {
        var sums = LedgerSums(by: .tag, zone: .gmt)
        for number in 0..<7 { sums.add(transfer(1, ChargeLabels(tag: "t\(number)"))) }
        sums.add(transfer(1, ChargeLabels()))
        var keys: [String?] = []
        var last: String?
        for _ in 0..<4 {
            let (page, next) = sums.page(after: last, limit: 2)
            keys += page.map(\.key)
            last = next
        }

        #expect(keys == (0..<7).map { "t\($0)" } + [nil])
        #expect(last == nil)
    }

    @Test func `a cursor belongs to its account, grouping and days`() async throws {
        let function = ScriptedFunction("f", FunctionRules(price: .fixed(1)))
        let world = CallWorld(function)
        let (who, other) = (try await world.account(1), try await world.account(2))
        for tag in ["a", "b"] { _ = try await call(world, who, tag, tag: tag) }
        let first = try await world.authority.summary(
            of: who.account,
            try query(("by", "tag"), ("limit", "1"))
        )
        let cursor = try #require(first.nextCursor)
        let second = try await world.authority.summary(
            of: who.account,
            try query(("by", "tag"), ("limit", "1"), ("cursor", cursor))
        )

        #expect(first.items.map(\.key) == ["a"] && second.items.map(\.key) == ["b"])
        for (account, by) in [(other.account, "tag"), (who.account, "model")] {
            let wrong = try query(("by", by), ("cursor", cursor))
            let refusal = await problem { () throws(Problem) in
                try await world.authority.summary(of: account, wrong)
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    @Test func `the title of a thread is charged with the labels of the answered call`()
        async throws
    {
        let rules = FunctionRules(price: .fixed(1), keepsHistory: true, titles: "title")
        let title = ScriptedFunction("title", FunctionRules(price: .fixed(2)))
        let world = CallWorld(ScriptedFunction("f", rules), title)
        let who = try await world.account(1)
        let thread = Identifier.numbered(7)
        var submission = Submission<FunctionRequest<JSONValue>>(
            key: "a",
            fingerprint: Fingerprint("a"),
            content: .success(FunctionRequest(input: ["q": "one"], thread: thread))
        )
        submission.labels = Self.tagged
        _ = try await world.runner.call("f", who, submission)
        try await eventually("the thread has a title") {
            try await world.authority.thread(RecordID(thread), of: who.account)?.title != nil
        }

        let sums = try await world.authority.summary(of: who.account, try query(("by", "tag")))
        #expect(sums.items.first { $0.key == "trip" }?.charged == 3)
    }

    @Test func `a call's charge has the tag of the caller and the model that was asked last`()
        async throws
    {
        let function = ScriptedFunction("f", FunctionRules(price: .fixed(2))) {
            _,
            context async throws(Problem) in
            context.asks("first")
            context.asks("fallback")
            return .init(output: "made", charge: 2)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        _ = try await call(world, who, "k", tag: "trip")

        for (by, key) in [("tag", "trip"), ("model", "fallback")] {
            let sums = try await world.authority.summary(of: who.account, try query(("by", by)))
            let group = try #require(sums.items.first { $0.key == key })
            #expect(group.charged == 2)
        }
    }

    @Test func `a lost call's charge has the tag of the caller`() async throws {
        let world = CallWorld(ScriptedFunction())
        let who = try await world.account()
        let terms = CallTerms(
            operation: .numbered(7),
            function: "f",
            hold: 2,
            life: .seconds(60),
            isSent: true
        )
        var submission = Submission(
            key: "k",
            fingerprint: Fingerprint("call"),
            content: Result<CallTerms, Problem>.success(terms)
        )
        submission.labels = Self.tagged
        _ = try await world.authority.start(who.account, submission)
        world.wall.advance(by: .seconds(61))
        _ = try await world.authority.expireHolds()

        let sums = try await world.authority.summary(of: who.account, try query(("by", "tag")))
        #expect(sums.items.first { $0.key == "trip" }?.charged == 2)
    }

    @Test func `a spend and a client's hold are charged with their tag`() async throws {
        let world = CallWorld(ScriptedFunction())
        let who = try await world.account()
        var spend = Submission("s", SpendRequest(amount: 3, reason: "tea"))
        spend.labels = Self.tagged
        _ = try await world.authority.spend(who.account, spend)
        var hold = Submission("h", HoldRequest(amount: 4))
        hold.labels = Self.tagged
        let answer = try await world.authority.hold(who.account, hold)
        let id = try #require(JSONValue(bytes: answer.stored.body)["hold"]?["id"]?.string)
        _ = try await world.authority.capture(
            try #require(Identifier(id)),
            who.account,
            Submission("c", CaptureRequest(amount: 4))
        )

        let sums = try await world.authority.summary(of: who.account, try query(("by", "tag")))
        #expect(sums.items.first { $0.key == "trip" }?.charged == 7)
    }
}
