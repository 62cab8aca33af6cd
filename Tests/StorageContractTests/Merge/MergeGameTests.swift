import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Random requests of guests and accounts, with merges, compared with a simple model.
@Suite("Merges under random events", .bounded(.seconds(300)))
struct MergeGameTests {
    private static let seed = environmentNumber("SEED", or: UInt64(1))
    private static let events = environmentNumber("EVENTS", or: 400)

    /// Plays the game.
    ///
    /// A failure names the seed. To replay it, set `SEED`.
    @Test(arguments: StorageDriver.allCases, 0..<UInt64(4))
    func `a game of pushes, spends, holds, calls and merges agrees with its model`(
        driver: StorageDriver,
        offset: UInt64
    ) async throws {
        let seed = Self.seed + offset
        try await driver.withEmptyStorage { storage in
            let world = MergeWorld(over: storage) { $0.mergedGuestsPerAccount = 1_000 }
            var game = MergeGame(world, seed: seed)
            try await game.begin()
            for _ in 0..<Self.events { try await game.play() }
            try await game.finish()
            #expect(game.merges > 5, "\(game.place)")
        }
    }
}

/// The state of a game: the model, and the requests that can be repeated.
private struct MergeGame {
    private struct Player {
        var identity: Identity
        var isGuest: Bool
        var available: Int64 = 100
        var held: Int64 = 0
        var used: Int64 = 0
        /// The values by id, and the times of their last changes.
        var notes: [String: (value: Int64?, at: Timestamp)] = [:]
        var calls: [(call: AcceptedCall, hold: Int64)] = []
        var spends: [(key: String, amount: Int64)] = []
        var pushed: [PushedOperation] = []
    }

    private let world: MergeWorld
    private let seed: UInt64
    private var random: SplitMix64
    private var players: [Player] = []
    private var event = 0
    private var devices = 0
    private(set) var merges = 0

    init(_ world: MergeWorld, seed: UInt64) {
        self.world = world
        self.seed = seed
        random = SplitMix64(seed: seed)
    }

    var place: Comment { "Seed \(seed), event \(event)" }

    mutating func begin() async throws {
        for number in 1...2 {
            let identity = try await world.registered(number)
            players.append(Player(identity: identity, isGuest: false))
        }
        for _ in 1...3 { try await addGuest() }
    }

    private mutating func addGuest() async throws {
        devices += 1
        let identity = try await world.guest(devices)
        players.append(Player(identity: identity, isGuest: true))
    }

    mutating func play() async throws {
        event += 1
        world.clock.advance(by: .seconds(1))
        let who = Int.random(in: players.indices, using: &random)
        switch Int.random(in: 0..<12, using: &random) {
        case 0...3: try await write(who)
        case 4, 5: try await spend(who)
        case 6: try await begin(who)
        case 7: try await end(who)
        case 8: try await use(who)
        case 9: try await again(who)
        case 10: try await check(who)
        default: try await merge()
        }
    }

    private mutating func write(_ who: Int) async throws {
        let id = "n\(Int.random(in: 0..<6, using: &random))"
        let value = Int.random(in: 0..<4, using: &random)
        let fields: [String: JSONValue]? = value == 0 ? nil : ["n": .integer(Int64(value))]
        let now = world.clock.now()
        let operation = MergeWorld.operation("notes", id, fields, at: now)
        let result = try await world.push(players[who].identity, [operation]).results[0]
        #expect(result.status == .applied, place)
        players[who].pushed.append(operation)
        let old = players[who].notes[id]?.value
        let new = fields == nil ? nil : Int64(value)
        guard old != new else { return }
        players[who].notes[id] = (new, now)
    }

    private mutating func spend(_ who: Int) async throws {
        let (amount, key) = (Int64.random(in: 1...30, using: &random), "spend \(event)")
        let player = players[who]
        let refusal = await world.refusal { [world] () async throws(Problem) in
            try await world.spend(player.identity, amount, key)
        }
        #expect((refusal == nil) == (amount <= player.available), place)
        guard refusal == nil else { return }
        players[who].available -= amount
        players[who].spends.append((key, amount))
    }

    private mutating func begin(_ who: Int) async throws {
        let hold = Int64.random(in: 1...20, using: &random)
        guard hold <= players[who].available else { return }
        let call = try await world.call(players[who].identity, "call \(event)", hold: hold)
        players[who].available -= hold
        players[who].held += hold
        players[who].calls.append((call, hold))
    }

    private mutating func end(_ who: Int) async throws {
        guard let (call, hold) = players[who].calls.popLast() else { return }
        let charge = Int64.random(in: 0...hold, using: &random)
        let end: CallEnd =
            charge == 0
            ? .failed(Problem(.upstreamFailed, "No."))
            : .succeeded(charge: charge) { _, _ in Array("{}".utf8) }
        // The call may name a guest that was merged since.
        _ = try await world.authority.settle(call, end)
        _ = try await world.authority.settle(call, end)
        players[who].available += hold - charge
        players[who].held -= hold
    }

    private mutating func use(_ who: Int) async throws {
        let identity = players[who].identity
        let refusal = await world.refusal { [world] () async throws(Problem) in
            try await world.consume(identity)
        }
        #expect((refusal == nil) == (players[who].used < 3), place)
        if refusal == nil { players[who].used += 1 }
    }

    /// Repeats a request, which the player or a guest that was merged into it has made.
    private mutating func again(_ who: Int) async throws {
        let player = players[who]
        if let (key, amount) = player.spends.randomElement(using: &random) {
            let answer = try await world.spend(player.identity, amount, key)
            #expect(answer.replayed, place)
        }
        if let operation = player.pushed.randomElement(using: &random) {
            let result = try await world.push(player.identity, [operation]).results[0]
            #expect(result.status == .replayed, place)
        }
    }

    private mutating func merge() async throws {
        let guests = players.indices.filter { players[$0].isGuest }
        guard let index = guests.randomElement(using: &random) else { return }
        let target = Int.random(in: 0..<2, using: &random)
        let guest = players[index]
        let account = players[target].identity.account
        if Bool.random(using: &random) {
            let offer = try await world.authority.previewMerge(of: guest.identity, into: account)
            let request = MergeRequest(mergeToken: offer.mergeToken)
            let merged = try await world.authority.merge(guest.identity, request).0.merged
            #expect(merged?.records == offer.preview.records, place)
        } else {
            _ = try await world.authority.merge(guest.identity, into: account)
        }
        players[target].available += guest.available
        players[target].held += guest.held
        players[target].used = max(players[target].used, guest.used)
        players[target].calls += guest.calls
        players[target].spends += guest.spends
        players[target].pushed += guest.pushed
        for (id, theirs) in guest.notes where theirs.value != nil {
            if let own = players[target].notes[id], own.at >= theirs.at { continue }
            players[target].notes[id] = theirs
        }
        players.remove(at: index)
        merges += 1
        try await addGuest()
        try await check(target)
        try await world.checkSums(place)
    }

    private func check(_ who: Int) async throws {
        let player = players[who]
        let balance = try await world.authority.balance(player.identity.account)
        #expect((balance.available, balance.held) == (player.available, player.held), place)
        #expect(try await world.used(player.identity) == player.used, place)
        var notes: [String: Int64] = [:]
        for (id, note) in player.notes { notes["notes/\(id)"] = note.value }
        let records = try await world.records(player.identity)
        #expect(records.compactMapValues { $0["n"]?.integer } == notes, place)
        if !player.notes.isEmpty { try await world.checkCounts(player.identity) }
    }

    func finish() async throws {
        for who in players.indices { try await check(who) }
        try await world.checkSums(place)
    }
}
