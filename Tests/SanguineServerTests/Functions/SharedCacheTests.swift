import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Two accounts share a server's cache of answers, and see nothing of each other.
///
/// `REQUESTS=10000 SEED=7 swift test --filter SharedCacheTests` sends more, of another seed.
@Suite("Accounts and shared answers", .bounded(.seconds(600)))
struct SharedCacheTests {
    private static let requests = environmentNumber("REQUESTS", or: 1_500)
    private static let seed: UInt64 = environmentNumber("SEED", or: 20_266)
    /// The number of requests at a time.
    private static let atOnce = 8

    @Test func `random requests of two accounts reveal nothing of the other`() async throws {
        try await LiveServer.with {
            $0.functions = SharedCacheGame.served()
            $0.settings.accounts.grant = 1_000_000
        } _: { server in
            var callers: [SharedCacheGame.Caller] = []
            for (account, session) in [(0, 0), (0, 1), (1, 2), (1, 3)] {
                let guest = try await server.guest(device: "a-device-of-the-account-\(account)")
                callers.append(.init(account: account, session: session, guest: guest))
            }
            var game = SharedCacheGame(callers: callers, seed: Self.seed)
            for start in stride(from: 0, to: Self.requests, by: Self.atOnce) {
                try await Self.play(&game, start, min(Self.atOnce, Self.requests - start))
            }
            print(
                """
                Seed \(Self.seed): \(Self.requests) requests of two accounts, \(game.hits) answers \
                from the cache, \(game.missing) refusals of what belongs to the other.
                """
            )
            #expect(game.hits > Self.requests / 50, "SEED=\(Self.seed)")
            #expect(game.missing > Self.requests / 50, "SEED=\(Self.seed)")
            try await Self.expectOwnThreads(game)
        }
    }

    /// Sends some requests at once, and checks the responses.
    private static func play(
        _ game: inout SharedCacheGame,
        _ start: Int,
        _ count: Int
    ) async throws {
        let planned = (0..<count).map { _ in game.next() }
        let replies = try await withThrowingTaskGroup(of: (Int, Reply).self) { group in
            for (number, (caller, asked)) in planned.enumerated() {
                group.addTask {
                    (number, try await SharedCacheGame.send(asked, as: caller.guest))
                }
            }
            return try await group.reduce(into: [Int: Reply]()) { $0[$1.0] = $1.1 }
        }
        for (number, (caller, asked)) in planned.enumerated() {
            guard let reply = replies[number],
                let fault = game.check(reply, to: asked, of: caller)
            else { continue }
            Issue.record(
                """
                SEED=\(seed), request \(start + number), \(asked) of account \(caller.account): \
                \(fault): \(reply.status) \(reply.body.prefix(400))
                """
            )
        }
    }

    /// Checks that the feed of each account has the threads that it began, and no others.
    private static func expectOwnThreads(_ game: SharedCacheGame) async throws {
        for account in 0...1 {
            let guest = try #require(game.callers.first { $0.account == account }).guest
            let other = try #require(game.callers.first { $0.account != account }).guest
            var threads: Set<String> = []
            var since: Int64 = 0
            var hasMore = true
            while hasMore {
                let reply = try await guest.get("/v1/sync/pull?since=\(since)&limit=500")
                #expect(!reply.body.contains(other.account.id.description), "SEED=\(seed)")
                let page = try reply.decode(PullAnswer.self)
                for change in page.changes where change.collection == "$threads" {
                    threads.insert(change.id.text)
                }
                hasMore = page.hasMore
                since = page.next
            }
            // A deletion that another account asked for has no effect.
            #expect(threads == Set(game.begun[account].map(\.description)), "SEED=\(seed)")
        }
    }
}
