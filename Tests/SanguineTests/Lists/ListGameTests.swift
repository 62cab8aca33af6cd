import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Plays the strict model of a list against a whole client with its cache, files and restarts.
@Suite("List game", .bounded(.seconds(120)))
struct ListGameTests {
    private static let steps = Fuzz.events(60)

    @Test(arguments: Fuzz.seeds(1...12))
    func `the client shows a valid list regardless of the server's behavior`(
        seed: UInt64
    ) async throws {
        var game = try ListGame(seed: seed)
        for _ in 1...Self.steps where game.fault == nil { try await game.step() }
        if game.fault == nil { try await game.finish() }

        #expect(game.fault == nil, Fuzz.replay(Self.self, seed: seed, game.fault ?? ""))
    }
}

/// A client, a list with small pages, and a server that changes the list.
private struct ListGame {
    private let server = FeedServer(count: 40)
    private let folder = TemporaryFolder()
    private var test: TestClient
    private var judge = FeedJudge()
    private var random: SplitMix64
    private(set) var fault: String?
    private let list = ListQuery<FeedRow>(
        "game",
        path: "feed/game",
        policy: .fresh(for: .seconds(30)).stored(.onDisk),
        size: 5
    )

    init(seed: UInt64) throws {
        random = SplitMix64(seed: seed)
        test = try TestClient(network: server.network(), folder: folder)
    }

    private mutating func roll(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }

    mutating func step() async throws {
        switch roll(20) {
        case 0..<6: change()
        case 6: server.change { $0.expireCursors() }
        case 7..<11: try await load { try await $0.loadNext($1) }
        case 11..<15: try await load { try await $0.refresh($1) }
        case 15..<17: try await loadLate()
        case 17..<19:
            try await load { client, list in
                async let next: Void = client.loadNext(list)
                async let fresh = client.refresh(list)
                _ = try await (next, fresh)
            }
        default: try restart()
        }
    }

    /// Starts the list over and loads it to its end, after which it must equal the server's list.
    mutating func finish() async throws {
        server.change { feed in for _ in 1...20 { feed.insert(onTop: true, jump: 1) } }
        try await load { try await $0.refresh($1) }
        for _ in 1...100 where test.client.snapshot(of: list).hasMore && fault == nil {
            try await load { try await $0.loadNext($1) }
        }
        let (ids, truth) = (test.client.snapshot(of: list).items.map(\.id), server.ids)
        if fault == nil, ids != truth { fault = "\(ids) is shown, the server has \(truth)" }
    }

    private mutating func change() {
        let (kind, place, other) = (roll(6), roll(1_000), roll(1_000))
        server.change { feed in
            switch kind {
            case 0: feed.insert(onTop: true, jump: 1)
            case 1: feed.insert(onTop: false, jump: 0, at: place)
            case 2: feed.bump(place, jump: 1)
            case 3: feed.move(place, to: other)
            case 4: feed.edit(place)
            default: feed.delete(place % 12)
            }
        }
    }

    private mutating func load(
        _ body: (SanguineClient, ListQuery<FeedRow>) async throws -> Void
    ) async throws {
        let (asked, answers) = server.state { ($0.version, $0.answers.count) }
        try await body(test.client, list)
        look(asked: asked, since: answers)
    }

    /// Loads a page whose answer arrives only after the list on the server has changed.
    private mutating func loadLate() async throws {
        let (asked, answers) = server.state { ($0.version, $0.answers.count) }
        let isNext = roll(2) == 0 && test.client.snapshot(of: list).hasMore
        let (client, list) = (test.client, list)
        test.network.hold()
        let loading = Task {
            if isNext { try await client.loadNext(list) } else { try await client.refresh(list) }
        }
        try await test.network.waitForHeld(1)
        for _ in 1...3 { change() }
        test.network.release()
        try await loading.finished()
        look(asked: asked, since: answers)
    }

    private mutating func restart() throws {
        test.client.close()
        test = try TestClient(network: server.network(), folder: folder)
        look(asked: 0, since: server.state { $0.answers.count })
    }

    private mutating func look(asked: Int, since first: Int) {
        let snapshot = test.client.snapshot(of: list)
        let feed = server.state { $0 }
        guard snapshot.asOf != nil, fault == nil else { return }
        let view = FeedJudge.View(
            rows: snapshot.items,
            hasMore: snapshot.hasMore,
            hasPrevious: snapshot.hasPrevious
        )
        fault = judge.fault(
            in: view,
            of: feed,
            after: (first..<feed.answers.count).map { .init(answer: $0, asked: asked) }
        )
    }
}
