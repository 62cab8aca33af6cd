import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// No gap, no repetition, and no partial operation, with pages of any size.
@Suite("Feed under random events", .bounded(.seconds(300)))
struct FeedFuzzTests {
    /// Plays 150 random pushes, charges and sweeps per seed, with concurrent readers.
    ///
    /// A failure names the seed. To debug it, replace the range by that seed.
    @Test(arguments: UInt64(1)...12)
    func `readers with pages of any size end with the authority's records`(
        seed: UInt64
    ) async throws {
        var random = SplitMix64(seed: seed)
        let world = try await SyncWorld { $0.grant = 1_000 }
        var readers = (0..<5).map { _ in Reader() }
        for step in 0..<150 {
            try await play(world, step, using: &random)
            let index = Int.random(in: 0..<readers.count, using: &random)
            if index == 4, step % 40 != 0 { continue }  // One reader is away for a long time.
            try await readers[index].turn(world, limit: .random(in: 1...7, using: &random))
        }
        let fresh = try await world.records()
        for index in readers.indices {
            try await readers[index].finish(world, limit: .random(in: 1...7, using: &random))
            #expect(readers[index].records == fresh, "seed \(seed), reader \(index)")
        }
    }

    private func play(
        _ world: SyncWorld,
        _ step: Int,
        using random: inout SplitMix64
    ) async throws {
        let id = try RecordID(derivedFrom: Int.random(in: 0..<12, using: &random))
        let other = try RecordID(derivedFrom: Int.random(in: 0..<12, using: &random))
        switch Int.random(in: 0..<10, using: &random) {
        case 0:
            let spend = Submission("spend \(step)", SpendRequest(amount: 1, reason: "tea"))
            _ = try await world.authority.spend(world.account, spend)
        case 1:
            world.clock.advance(by: .seconds(20 * 86_400))
            _ = try await world.authority.sweep()
        case 2, 3:
            try await world.push(DeleteRecord(.note(id)), DeleteRecord(.post(other)))
        case 4:
            try await world.push(CreateMany(ids: [id, other], text: "\(step)"), Stumble(id: id))
        default:
            try await world.push(
                CreateRecord(.note(id), ["n": 0]),
                CreateRecord(.post(other), ["n": 0]),
                IncrementField(.note(id), "n", by: 1),
                CreateMany(ids: [id, "fixed", other], text: "\(step)")
            )
        }
    }
}

/// A device that stores what it pulls.
private struct Reader {
    var records: [RecordKey: JSONValue] = [:]
    var position: Int64 = 0
    var horizon: Int64 = 0

    /// Pulls a page, and checks the rules of pages.
    mutating func turn(_ world: SyncWorld, limit: Int) async throws {
        let answer = try await world.pull(position, limit: limit, horizon: horizon)
        if answer.reset { (records, position) = ([:], 0) }
        let numbers = answer.changes.map(\.seq)
        #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 })
        #expect(numbers.allSatisfy { $0 > position && $0 <= answer.next })
        #expect(answer.changes.allSatisfy { $0.through ?? $0.seq <= answer.next })
        #expect(Set(answer.changes.map { RecordKey($0.collection, $0.id) }).count == numbers.count)
        #expect(answer.hasMore ? answer.next < answer.head : answer.next == answer.head)
        for change in answer.changes where !change.collection.hasPrefix("$") {
            records[RecordKey(change.collection, change.id)] = change.value
        }
        position = answer.next
        horizon = answer.horizon ?? 0
    }

    mutating func finish(_ world: SyncWorld, limit: Int) async throws {
        for _ in 0..<1_000 {
            try await turn(world, limit: limit)
            if position == (try await world.authority.balance(world.account).head) { return }
        }
        Issue.record("The reader never reaches the head.")
    }
}
