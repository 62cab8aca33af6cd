import Foundation
import OrderedCollections
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The cost of a mutation does not depend on the number of pending operations.
@Suite("Cost of mutations", .bounded(.seconds(120)))
struct MutationCostTests {
    /// The number of times that effects ran, by song; each test has its own song.
    private static let runs = Mutex<[String: Int]>([:])

    private struct Count: RemoteMutation {
        static let name = "song.count"
        let song: String
        var mustChange = true

        func effects(on view: inout MutationEffects) {
            view.update(.song(song)) { value in
                MutationCostTests.runs.withLock { $0[song, default: 0] += 1 }
                if mustChange { value.likes += 1 }
            }
        }

        func send(_ request: MutationContext) async throws { try await request.post("count") }
    }

    private static func client(_ song: String) throws -> (SanguineClient, SongFixture) {
        let fixture = SongFixture()
        fixture.connectivity.disconnect()
        let client = try fixture.client { $0.register(Count.self) }
        client.set(Song(id: song), for: .song(song))
        return (client, fixture)
    }

    private static func runs(of song: String) -> Int { runs.withLock { $0[song] ?? 0 } }

    @Test(arguments: [true, false])
    func `each mutation is applied once when it is performed`(mustChange: Bool) throws {
        let song = UUID().uuidString
        let (client, _) = try Self.client(song)
        defer { client.close() }
        for _ in 0..<300 { try client.perform(Count(song: song, mustChange: mustChange)) }

        #expect(Self.runs(of: song) == 300)
        #expect(client.likes(song) == (mustChange ? 300 : 0))
    }

    @Test func `a new base applies all mutations again, and a later one is applied once`() throws {
        let song = UUID().uuidString
        let (client, _) = try Self.client(song)
        defer { client.close() }
        for _ in 0..<10 { try client.perform(Count(song: song)) }
        client.set(Song(id: song, likes: 100), for: .song(song))
        #expect(client.likes(song) == 110)
        #expect(Self.runs(of: song) == 20)
        try client.perform(Count(song: song))

        #expect(client.likes(song) == 111)
        #expect(Self.runs(of: song) == 21)
    }

    @Test func `discarding a mutation removes its effect and keeps the later ones`() throws {
        let song = UUID().uuidString
        let (client, _) = try Self.client(song)
        defer { client.close() }
        let receipts = try (0..<5).map { _ in try client.perform(Count(song: song)) }
        try client.outbox.discard(receipts[2].id)
        #expect(client.likes(song) == 4)
        try client.perform(Count(song: song))

        #expect(client.likes(song) == 5)
        #expect(client.outbox.summary.unsent == 5)
    }

    @Test func `one user's effects are not shown to another user`() throws {
        let song = UUID().uuidString
        let (client, fixture) = try Self.client(song)
        defer { client.close() }
        try client.perform(Count(song: song))
        fixture.authorizer.change(to: nil, in: client)
        client.set(Song(id: song, likes: 7), for: .song(song))

        #expect(client.likes(song) == 7)
    }
}

/// The search for the next operation to send starts where the last one ended.
@Suite("Search for the next operation", .bounded(.seconds(120)))
struct FlightSearchTests {
    private static let sends: [OutboxState.Kind: Int] = [.record: 2, .remote: 3]

    /// Returns the next operation to send by searching all of them.
    private static func expected(_ state: OutboxState) -> Int64? {
        guard !state.pauses.contains(.offline) else { return nil }
        for kind in OutboxState.Kind.allCases where !state.mustSignIn(kind) {
            if let found = expected(state, kind) { return found }
        }
        return nil
    }

    private static func expected(_ state: OutboxState, _ kind: OutboxState.Kind) -> Int64? {
        func isSending(_ item: OutboxState.Item) -> Bool {
            if case .sending = item.phase { true } else { false }
        }
        let flying = state.items.values.filter { $0.kind == kind && isSending($0) }
        guard flying.count < sends[kind, default: 0] else { return nil }
        var closed = Set(flying.map(\.lane))
        let waits = Set(state.waits.keys.filter { $0.kind == kind }.map(\.lane))
        for item in state.items.values where item.kind == kind {
            if item.isArriving { return nil }
            guard item.phase == .queued else { continue }
            if !closed.contains(item.lane), !waits.contains(item.lane) { return item.sequence }
            closed.insert(item.lane)
        }
        return nil
    }

    @Test(arguments: 1...50)
    func `the search finds the same operation as a full scan`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var state = OutboxState(
            limit: 200,
            Self.sends.mapValues { .init(operations: 1, sends: $0) }
        )
        var sends: [OutboxState.Send] = []
        var (last, taken) = (Int64(0), 0)
        var sent: Set<Int64> = []  // The operations that a server may have received.
        for _ in 0..<600 {
            let lane = "\(Int.random(in: 0..<5, using: &random))"
            let kind = Bool.random(using: &random) ? OutboxState.Kind.record : .remote
            let some = state.items.keys.randomElement(using: &random) ?? 0
            switch Int.random(in: 0..<12, using: &random) {
            case 0..<4 where !state.isFull:
                last += 1
                let id = Identifier(at: Timestamp(millisecondsSince1970: last), using: &random)
                var item = OutboxState.Item(id: id, sequence: last, lane: lane, kind: kind)
                item.isArriving = Int.random(in: 0..<6, using: &random) == 0
                state.add(item)
            case 4, 5:
                guard !sends.isEmpty else { continue }
                let send = sends.remove(at: Int.random(in: 0..<sends.count, using: &random))
                let ids = send.sequences.compactMap { state.items[$0]?.id }
                let results = ids.map { PushResult(id: $0, status: .applied, head: 1) }
                _ = state.complete(send.number, results)
            case 6:
                guard !sends.isEmpty else { continue }
                let wasSent = Bool.random(using: &random)
                let send = sends.removeFirst()
                if wasSent { sent.formUnion(send.sequences) }
                _ = state.fail(send.number, .retry, wasSent: wasSent)
            case 7:
                state.wake(Bool.random(using: &random) ? .init(kind: kind, lane: lane) : nil)
            case 8:
                let pause = Bool.random(using: &random) ? OutboxState.Pause.offline : .signIn(kind)
                state.set(pause, Int.random(in: 0..<3, using: &random) == 0)
            case 11: for sequence in state.items.keys { state.arrived(sequence) }
            case 9:
                let reached = sent.union(sends.flatMap(\.sequences))
                let unsent = state.items[some].map { state.unsent($0.kind, in: $0.lane) } ?? []
                let mayGo = unsent.contains(some)
                #expect(unsent == unsent.sorted(by: >) && !(mayGo && reached.contains(some)))
                #expect((state.discard(some) != nil) == mayGo)
            case 10: state.move(some, to: lane)
            default: _ = state.settle([some])
            }
            let wanted = Self.expected(state)
            let send = state.startSend()?.send
            #expect(send?.sequences.first == wanted)
            if let send {
                sends.append(send)
                taken += 1
            }
        }
        #expect(taken > 20)
    }
}
