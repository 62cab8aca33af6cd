import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Live batches", .bounded)
struct LiveBatchesTests {
    private var batches = LiveBatches(after: FeedMark(number: 10))

    private func change(_ seq: Int64, through: Int64? = nil, head: Int64) throws -> LiveChange {
        let id = try #require(RecordID("r\(seq)"))
        let change = RecordChange(
            collection: "notes",
            id: id,
            seq: seq,
            through: through,
            value: [:]
        )
        return LiveChange(change, head: head)
    }

    @Test mutating func `a change that is the newest is a batch`() throws {
        let batch = try batches.add(try change(11, head: 11))
        #expect(batch?.since == 10)
        #expect(batch?.next == 11)
        #expect(batch?.isComplete == true)
        #expect(batches.position == 11)
    }

    @Test func `changes that share a number are all in batches for random commits`() throws {
        var random = SplitMix64(seed: 3)
        for _ in 0..<100 {
            var batches = LiveBatches(after: FeedMark(number: 0))
            var sent: [RecordID] = []
            var received: [RecordID] = []
            var place: Int64 = 0
            let head = Int64.random(in: 1...12, using: &random)
            var known: Int64 = 0
            for seq in 1...head {
                if seq > known { known = Int64.random(in: seq...head, using: &random) }
                for part in 0..<Int.random(in: 1...3, using: &random) {
                    let id = try #require(RecordID("r\(seq)-\(part)"))
                    sent.append(id)
                    let change = RecordChange(collection: "$quotas", id: id, seq: seq, value: [:])
                    guard let batch = try batches.add(LiveChange(change, head: known)) else {
                        continue
                    }
                    #expect(batch.since == place)
                    place = batch.next
                    received += batch.changes.map(\.id)
                }
            }
            #expect(received == sent && place == head)
        }
    }

    @Test func `ids of another epoch do not continue the batches`() {
        var fresh = LiveBatches(after: FeedMark(number: 3))
        var reported: [Bool] = []
        for id in ["", "4", "one.5", "one.6", "7", "two.8"] {
            reported.append(fresh.isContinued(at: id))
        }
        #expect(reported == [true, true, true, true, true, false])
        var known = LiveBatches(after: FeedMark(epoch: Epoch("one"), number: 3))
        let isContinued = known.isContinued(at: "two.4")
        #expect(!isContinued)
    }

    @Test mutating func `an operation with many records is never split`() throws {
        #expect(try batches.add(try change(11, through: 13, head: 13)) == nil)
        #expect(try batches.add(try change(12, through: 13, head: 13)) == nil)
        let batch = try batches.add(try change(13, through: 13, head: 13))
        #expect(batch?.changes.map(\.seq) == [11, 12, 13])
        #expect(batch?.since == 10)
        #expect(batch?.next == 13)
    }

    @Test mutating func `changes up to the head are batched together`() throws {
        #expect(try batches.add(try change(11, head: 12)) == nil)
        let batch = try batches.add(try change(12, head: 12))
        #expect(batch?.changes.map(\.seq) == [11, 12])
    }

    @Test mutating func `an operation whose last change was replaced ends anyway`() throws {
        // 12 belonged to it and was changed again at 14.
        #expect(try batches.add(try change(11, through: 12, head: 14)) == nil)
        let batch = try batches.add(try change(14, head: 14))
        #expect(batch?.changes.map(\.seq) == [11, 14])
        #expect(batch?.next == 14)
    }

    @Test mutating func `a position without a change completes the pending batch`() throws {
        #expect(try batches.add(try change(11, head: 12)) == nil)
        let batch = batches.reached(12)
        #expect(batch?.changes.map(\.seq) == [11])
        #expect(batch?.next == 12)
        #expect(batches.reached(12) == nil)
    }

    @Test mutating func `earlier changes are ignored`() throws {
        #expect(try batches.add(try change(10, head: 11)) == nil)
        #expect(try batches.add(try change(11, head: 11))?.changes.count == 1)
        #expect(try batches.add(try change(11, head: 11)) == nil)
    }

    @Test mutating func `a long sequence is split into incomplete batches`() throws {
        var all: [SyncState.FeedBatch] = []
        for seq in 11...1_010 {
            if let batch = try batches.add(try change(Int64(seq), head: 1_010)) {
                all.append(batch)
            }
        }
        #expect(all.map(\.isComplete) == [false, false, false, true])
        #expect(all.flatMap(\.changes).map(\.seq) == Array(11...1_010))
        #expect(zip(all, all.dropFirst()).allSatisfy { $0.next == $1.since })
    }

    @Test mutating func `an operation without an end is abandoned`() throws {
        #expect(throws: LiveBatches.Overrun.self) {
            for seq in 11...5_000 {
                _ = try batches.add(try change(Int64(seq), through: 9_000, head: 9_000))
            }
        }
    }

    @Test(arguments: 1...100)
    func `operations stay together and no change is lost`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var batches = LiveBatches(after: FeedMark(number: 0))
        var seen: [Int64] = []
        var ends: Set<Int64> = []
        var changes: [LiveChange] = []
        var seq: Int64 = 0
        while seq < 600 {
            let through = seq + Int64.random(in: 1...5, using: &random)
            ends.insert(through)
            for number in (seq + 1)...through
            where number == through || Bool.random(using: &random) {
                changes.append(try change(number, through: through, head: 0))
            }
            seq = through
        }
        for index in changes.indices {
            var event = changes[index]
            // Each read sees the state at that time.
            let later = min(index + Int.random(in: 0...9, using: &random), changes.count - 1)
            event.head = max(event.change.through ?? 0, changes[later].change.through ?? 0)
            let before = batches.position
            guard let batch = try batches.add(event) else { continue }
            #expect(batch.since == before)
            #expect(ends.contains(batch.next))
            seen += batch.changes.map(\.seq)
        }
        if let rest = batches.reached(seq) { seen += rest.changes.map(\.seq) }
        #expect(seen == changes.map(\.change.seq))
    }
}
