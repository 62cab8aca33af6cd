import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Pull", .bounded)
struct PullTests {
    @Test func `the feed begins with the profile and the balance`() async throws {
        let world = try await SyncWorld()

        let answer = try await world.pull()

        #expect(answer.changes.map(\.collection) == ["$account", "$balance"])
        #expect(answer.changes.allSatisfy { $0.id == RecordID(world.account) })
        #expect(answer.changes.map(\.seq) == [1, 2])
        #expect(answer.changes.last?.value?["available"] == 100)
        #expect(answer.next == 2 && answer.head == 2 && !answer.hasMore && !answer.reset)
    }

    @Test func `a reader of another epoch starts over, and one of this epoch continues`()
        async throws
    {
        let world = try await SyncWorld()
        let first = try await world.pull()
        let epoch = world.authority.storage.epoch
        #expect(first.epoch == epoch)
        for (named, isReset) in [(epoch, false), (nil, false), (Epoch("other"), true)] {
            let request = Authority.PullRequest(since: first.next, epoch: named)
            let answer = try await world.authority.pull(world.account, request)
            #expect(answer.reset == isReset && answer.epoch == epoch)
            #expect(answer.changes.count == (isReset ? 2 : 0))
        }
    }

    @Test func `a reader of live events can resume anywhere without missing changes`()
        throws
    {
        var random = SplitMix64(seed: 7)
        for _ in 0..<50 {
            var changes: [RecordChange] = []
            for seq in 1...Int64.random(in: 1...20, using: &random) {
                for part in 0..<Int.random(in: 1...3, using: &random) {
                    let id = try #require(RecordID("r\(seq)-\(part)"))
                    changes.append(.init(collection: "$quotas", id: id, seq: seq, value: [:]))
                }
            }
            let head = changes.last?.seq ?? 0
            let epoch = try #require(Epoch("e"))
            let answer = PullAnswer(
                changes: changes,
                next: head,
                head: head,
                hasMore: false,
                epoch: epoch
            )
            let events = String(decoding: LiveEvents.bytes(of: answer, after: 0), as: UTF8.self)
                .components(separatedBy: "\n\n").dropLast()
            #expect(events.count == changes.count)
            var place = FeedMark(number: 0)
            for (index, event) in events.enumerated() {
                if let line = event.split(separator: "\n").first(where: { $0.hasPrefix("id: ") }) {
                    place = try #require(FeedMark(line.dropFirst(4)))
                    #expect(place.epoch == epoch)
                }
                let rest = changes.filter { $0.seq > place.number }
                #expect(rest.suffix(changes.count - index - 1) == changes[(index + 1)...])
            }
            #expect(place.number == head)
        }
    }

    @Test func `without a grant, the balance has its own number`() async throws {
        let world = try await SyncWorld { $0.grant = 0 }

        #expect(try await world.pull().changes.map(\.seq) == [1, 2])
    }

    @Test func `a quota's use is in the feed`() async throws {
        let world = try await SyncWorld { $0.quotas = ["readings": 3] }
        let head = try await world.pull().head
        let consume = Submission("key", ConsumeRequest(amount: 2))
        _ = try await world.authority.consume("readings", world.account, consume)

        let answer = try await world.pull(head)

        #expect(answer.changes.map(\.collection) == ["$quotas"])
        #expect(answer.changes.first?.id == "readings")
        #expect(answer.changes.first?.value?["remaining"] == 1)
    }

    @Test func `a quota's use is in the feed again when the plan or the zone changes`() async throws
    {
        let world = try await SyncWorld { $0.quotas = ["readings": 3] }
        let consume = Submission("key", ConsumeRequest(amount: 2))
        _ = try await world.authority.consume("readings", world.account, consume)
        let used = try await world.pull().head
        _ = try await world.authority.setPlan(.premium, of: world.account)
        let premium = try await world.pull(used)
        _ = try await world.authority.patchAccount(world.account, ["timeZone": "Asia/Tokyo"])
        let moved = try await world.pull(premium.head)

        for answer in [premium, moved] {
            #expect(answer.changes.map(\.collection) == ["$account", "$quotas"])
            #expect(answer.changes.last?.value?["unlimited"] == true)
        }
    }

    @Test func `each record appears once in its newest state, a deleted one without a value`()
        async throws
    {
        let world = try await SyncWorld()
        let head = try await world.pull().head
        try await world.push(
            CreateRecord(.note("a"), ["n": 1]),
            CreateRecord(.note("b"), ["n": 1]),
            SetFields(.note("a"), ["n": 2]),
            DeleteRecord(.note("b"))
        )

        let changes = try await world.pull(head).changes

        #expect(changes.map(\.id) == ["a", "b"])
        #expect(changes.map(\.deleted) == [false, true])
        #expect(changes.map(\.value) == [["n": 2], nil])
    }

    @Test func `a page never splits an operation`() async throws {
        let world = try await SyncWorld()
        let head = try await world.pull().head
        try await world.push(
            CreateMany(ids: ["a", "b", "c"], text: "x"),
            CreateRecord(.note("d"), [:])
        )

        let first = try await world.pull(head, limit: 2)
        let second = try await world.pull(first.next, limit: 2)

        #expect(first.changes.map(\.id) == ["a", "b", "c"])
        #expect(first.hasMore && first.next == head + 3)
        #expect(second.changes.map(\.id) == ["d"])
        #expect(!second.hasMore && second.next == second.head)
    }

    @Test func `a page of large records is shorter`() async throws {
        let world = try await SyncWorld()
        let text = JSONValue.string(String(repeating: "x", count: 60_000))
        for number in 0..<90 {
            let id = try RecordID(derivedFrom: number)
            try await world.push(CreateRecord(.note(id), ["text": text]))
        }

        let answer = try await world.pull(limit: 1_000)

        #expect(answer.hasMore)
        #expect(answer.changes.count == 2 + (Authority.pageBytes + 59_999) / 60_000)
    }

    @Test func `feeds show no records of other accounts`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.note("a"), [:]), CreateRecord(.post("p"), [:]))

        #expect(try await world.records(by: stranger).isEmpty)
    }

    @Test func `a reader past the head starts over`() async throws {
        let world = try await SyncWorld()

        let answer = try await world.pull(99)

        #expect(answer.reset && answer.changes.count == 2 && answer.next == 2)
    }

    @Test func `the answer contains the results of operations`() async throws {
        let world = try await SyncWorld()
        let done = try PushedOperation.sample(CreateRecord(.note("a"), [:]))
        let refused = try PushedOperation.sample(SetFields(.note("b"), [:]), sequence: 2)
        let unknown = Identifier(at: ManualClock.start)
        let pushed = try await world.push([done, refused])

        let answer = try await world.authority.pull(
            world.account,
            .init(since: 0, operations: [done.id, refused.id, unknown])
        )

        #expect(answer.operations?.map(\.status) == [.applied, .refused, .unknown])
        #expect(answer.operations?.first?.head == pushed.results.first?.head)
        #expect(answer.operations?[1].problem == pushed.results[1].problem)
    }

    @Test func `too many operations are refused`() async throws {
        let world = try await SyncWorld()
        let ids = (0...100).map { _ in Identifier(at: ManualClock.start) }

        let refusal = await problem { () throws(Problem) in
            try await world.authority.pull(world.account, .init(since: 0, operations: ids))
        }

        #expect(refusal?.code == .malformedRequest)
    }

    @Test func `the JSON of an answer equals the encoded message`() async throws {
        let world = try await SyncWorld()
        let operation = try PushedOperation.sample(
            CreateMany(ids: ["a~3a:b", "b"], text: "ü\"\\/")
        )
        _ = try await world.push([operation])
        try await world.push(DeleteRecord(.note("b")))
        let request = Authority.PullRequest(since: 0, limit: 3, operations: [operation.id])

        let message = try await world.authority.pull(world.account, request)
        let json = try await world.authority.pullJSON(world.account, request)

        #expect(try JSONDecoder().decode(PullAnswer.self, from: Data(json)) == message)
        #expect(message.changes.count == 3)
    }
}

@Suite("Pull: forgotten deletions", .bounded)
struct PullHorizonTests {
    /// Creates a world with two live records, and a forgotten deletion between them.
    private func world() async throws -> (SyncWorld, old: Int64) {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.note("a"), [:]), CreateRecord(.note("gone"), [:]))
        let old = try await world.pull().head
        try await world.push(DeleteRecord(.note("gone")))
        world.clock.advance(by: .seconds(31 * 86_400))
        _ = try await world.authority.sweep()
        try await world.push(CreateRecord(.note("b"), [:]))
        return (world, old)
    }

    @Test func `a reader that may have missed a deletion starts over with the live records`()
        async throws
    {
        let (world, old) = try await world()

        let answer = try await world.pull(old)

        #expect(answer.reset)
        #expect(answer.horizon == old + 1)
        #expect(answer.changes.map(\.id).suffix(2) == ["a", "b"])
    }

    @Test func `a reader past the deletion continues`() async throws {
        let (world, old) = try await world()

        let answer = try await world.pull(old + 1)

        #expect(!answer.reset)
        #expect(answer.changes.map(\.id) == ["b"])
    }

    @Test func `a new reader gets no reset`() async throws {
        let (world, _) = try await world()

        #expect(try await world.pull().reset == false)
    }

    @Test func `a reader on its first read that sends the horizon is not reset`() async throws {
        let (world, old) = try await world()
        let first = try await world.pull(old, limit: 1, horizon: 0)

        let second = try await world.pull(first.next, limit: 1, horizon: first.horizon)

        #expect(first.reset && first.changes.count == 1 && first.next < old)
        #expect(!second.reset)
        #expect(second.changes.map(\.collection) == ["$balance"])
    }

    @Test func `a reader on its first read is not reset by later deletions of other records`()
        async throws
    {
        let world = try await SyncWorld { $0.tombstonesPerAccount = 2 }
        let ids = (0..<40).map { RecordID("n\($0)") }.compactMap { $0 }
        for id in ids { try await world.push(CreateRecord(.note(id), [:])) }
        // Deleted before the reader begins, so it never receives these.
        for id in ids.prefix(10) { try await world.push(DeleteRecord(.note(id))) }
        var (since, horizon): (Int64, Int64) = (0, 0)
        var (found, pages): (Set<RecordID>, Int) = ([], 0)
        repeat {
            let answer = try await world.pull(since, limit: 5, horizon: horizon)
            #expect(!answer.reset, "page \(pages)")
            for change in answer.changes where !change.collection.hasPrefix("$") {
                if change.deleted { found.remove(change.id) } else { found.insert(change.id) }
            }
            (since, horizon) = (answer.next, answer.horizon ?? 0)
            if !answer.hasMore { break }
            pages += 1
            // Each of these deletions drops one tombstone that is older than the reader.
            if pages <= 2 {
                let head = try await world.pull(0, limit: 1, horizon: 0).head
                try await world.push(DeleteRecord(.note(ids[9 + pages])))
                #expect(try await world.pull(0, limit: 1, horizon: 0).head == head + 1)
            }
        } while pages < 100

        #expect(found == Set(ids.dropFirst(12)))
    }

    @Test func `a reader on its first read is reset if a received record is deleted and forgotten`()
        async throws
    {
        let world = try await SyncWorld { $0.tombstonesPerAccount = 2 }
        let ids = (0..<20).map { RecordID("n\($0)") }.compactMap { $0 }
        for id in ids { try await world.push(CreateRecord(.note(id), [:])) }
        let first = try await world.pull(0, limit: 10, horizon: 0)
        for id in ids.prefix(5) { try await world.push(DeleteRecord(.note(id))) }

        let second = try await world.pull(first.next, limit: 10, horizon: first.horizon)

        #expect(first.hasMore && second.reset)
    }

    @Test func `a reader that sends no horizon passes it with the first page`() async throws {
        let (world, old) = try await world()

        let answer = try await world.pull(0, limit: 1)

        #expect(answer.hasMore)
        #expect(answer.next >= old)
        let rest = try await world.pull(answer.next, limit: 1)
        #expect(!rest.reset && rest.changes.map(\.id) == ["b"])
    }

    @Test func `a tombstone that is not old enough is kept`() async throws {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.note("a"), [:]))
        let head = try await world.pull().head
        try await world.push(DeleteRecord(.note("a")))
        world.clock.advance(by: .seconds(29 * 86_400))
        _ = try await world.authority.sweep()

        let answer = try await world.pull(head)

        #expect(!answer.reset && answer.changes.map(\.deleted) == [true])
    }

    @Test func `a reader that sends no horizon passes it with many records`() async throws {
        let world = try await SyncWorld()
        let count = WireLimits.largestPull + 50
        for first in stride(from: 0, to: count, by: 50) {
            _ = try await world.push(
                (first..<first + 50).enumerated().map { place, number in
                    let mutation = CreateRecord(.note(RecordID(stringLiteral: "n\(number)")), [:])
                    return try PushedOperation.sample(mutation, sequence: Int64(place) + 1)
                }
            )
        }
        try await world.push(CreateRecord(.note("gone"), [:]))
        try await world.push(DeleteRecord(.note("gone")))
        world.clock.advance(by: .seconds(31 * 86_400))
        _ = try await world.authority.sweep()

        var answer = try await world.pull(0, limit: 100)
        var ids = Set(answer.changes.map(\.id))
        while answer.hasMore {
            answer = try await world.pull(answer.next, limit: 100)
            guard !answer.reset else {
                Issue.record("The reader was reset.")
                break
            }
            ids.formUnion(answer.changes.map(\.id))
        }
        #expect(ids.count >= count)
    }

    @Test(arguments: 1...6)
    func `a reader that sends no horizon passes it with pages of any size`(
        _ limit: Int
    )
        async throws
    {
        let (world, old) = try await world()

        let first = try await world.pull(0, limit: limit)

        #expect(first.next > old)
        let rest = try await world.pull(first.next, limit: limit)
        #expect(!rest.reset)
        let changes = first.changes + rest.changes
        #expect(changes.filter { $0.collection == "notes" }.map(\.id) == ["a", "b"])
    }
}
