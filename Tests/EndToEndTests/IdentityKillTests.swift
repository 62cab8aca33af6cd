import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real server during merges, upgrades, purchases and deletions, at moments
    /// that a seed chooses.
    ///
    /// `KILLS=100 SEED=7 swift test --filter IdentityKillTests` plays 100 moments of another seed.
    @Suite("Identity and kills", .bounded(.seconds(1_800)))
    struct IdentityKillTests {
        /// The number of kills: `KILLS` of the environment, or 6.
        private static let kills = environmentNumber("KILLS", or: 6)
        private static let seed: UInt64 = environmentNumber("SEED", or: 20_264)
        /// The number of concurrent lives of each kind.
        private static let perKind = 2
        private static let environment = [
            "SANGUINE_LOG_ACCESS": "false", "SANGUINE_HTTP_TRUSTED_PROXIES": "127.0.0.1",
            "SANGUINE_ACCOUNTS_GRANT": "\(IdentityLife.grant)",
        ]

        /// The game: the data folder, its store, and the lives so far.
        private struct Game: Sendable {
            let data: URL
            let settings: URL
            let store: TestAppStore
            var random: SplitMix64
            var finished: [IdentityLife] = []
            var lives: [IdentityLife] = []
            private var count = 0

            init(in folder: URL, seed: UInt64) throws {
                data = folder.appending(path: "data")
                settings = folder.appending(path: "sanguine.yaml")
                store = try TestAppStore(at: SystemWallClock().now())
                random = SplitMix64(seed: seed)
                let root = folder.appending(path: "root.der")
                try FileManager.default.createDirectory(
                    at: folder,
                    withIntermediateDirectories: true
                )
                try Data(store.root).write(to: root)
                let text = """
                    appStore:
                      bundleId: \(TestAppStore.bundle)
                      appAppleId: \(TestAppStore.appleID)
                      roots: ["\(root.path)"]
                      products:
                        tokens: tokens \(IdentityLife.purchase)
                    """
                try Data(text.utf8).write(to: settings)
            }

            /// Begins as many lives as have ended.
            mutating func refill() {
                finished += lives.filter(\.isOver)
                lives.removeAll(where: \.isOver)
                for kind in IdentityLife.Kind.allCases {
                    while lives.count(where: { $0.kind == kind }) < IdentityKillTests.perKind {
                        lives.append(IdentityLife(number: count, kind: kind, store: store))
                        count += 1
                    }
                }
            }

            /// Runs the server while the lives go on, until the kill or to their ends.
            mutating func play(_ moment: (answers: Int, delay: Duration)?) async throws {
                let lives = lives
                let mail = MailFolder(of: data)
                self.lives = try await ServeProcess.with(
                    data: data,
                    arguments: ["--config", settings.path],
                    environment: IdentityKillTests.environment
                ) { process in
                    let server = KilledServer(process.api)
                    let killer = moment.map { moment in
                        Task {
                            try await server.answers.reach(moment.answers, "answers") { $0 }
                            // The kill comes at a random time, at any point of the server's work.
                            let delay = moment.delay
                            try await Task.sleep(for: delay)  // tidy: allow sleeping-test: random.
                            server.kill()
                            process.tool.signal(SIGKILL)
                        }
                    }
                    defer { killer?.cancel() }
                    let played = try await concurrently(lives.count) { number in
                        var life = lives[number]
                        try await life.live(on: server, mail)
                        return life
                    }
                    guard moment != nil else {
                        #expect(try await process.stop().status == 0)
                        return played
                    }
                    server.kill()
                    process.tool.signal(SIGKILL)
                    #expect(try await process.tool.ended().status == -SIGKILL)
                    return played
                }
            }
        }

        @Test
        func `kills during merges, upgrades, purchases and deletions lose and repeat nothing`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                do {
                    try await Self.expectNothingLost(in: folder)
                } catch {
                    throw Unexpected("SEED=\(Self.seed) KILLS=\(Self.kills): \(error)")
                }
            }
        }

        private static func expectNothingLost(in folder: URL) async throws {
            var game = try Game(in: folder, seed: seed)
            for kill in 1...max(1, kills) {
                game.refill()
                let answers = Int.random(in: 1...60, using: &game.random)
                let delay = Duration.microseconds(Int.random(in: 0...30_000, using: &game.random))
                try await game.play((answers, delay))
                try await verify(game.data, "after kill \(kill)")
            }
            try await game.play(nil)
            let lives = game.finished + game.lives
            #expect(lives.allSatisfy { $0.isOver })
            let cut = lives.flatMap(\.cut)
            let critical = cut.filter(\.isCritical)
            print(
                "Seed \(seed): \(kills) kills cut \(cut.count) steps, \(critical.count) critical."
            )
            #expect(!critical.isEmpty, "SEED=\(seed): no merge, upgrade or purchase was cut off.")

            let settings = game.settings
            try await ServeProcess.with(
                data: game.data,
                arguments: ["--config", settings.path],
                environment: environment
            ) { process in
                let server = KilledServer(process.api)
                _ = try await concurrently(lives.count, atOnce: 8) { number in
                    var life = lives[number]
                    try await life.check(on: server)
                }
                #expect(try await process.stop().status == 0)
            }
            try await verify(game.data, "at the end")
            try await check(lives, game.data)
        }

        private static func verify(_ data: URL, _ moment: String) async throws {
            let verified = try await Tool.run("ledger", "verify", "--data", data.path)
            #expect(verified.status == 0, "SEED=\(seed), \(moment): \(verified.output)")
        }

        /// Checks the database of the stopped server.
        private static func check(_ lives: [IdentityLife], _ data: URL) async throws {
            let queue = try DatabaseQueue(path: data.appending(path: "sanguine.sqlite").path)
            let counts = try await queue.read { database in
                try counted.map { try Int64.fetchOne(database, sql: $0.sql) ?? -1 }
            }
            for (row, count) in zip(counted, counts) {
                #expect(count == 0, "SEED=\(seed): \(count) \(row.finding)")
            }
            let (balances, deleted) = try await queue.read { database in
                let balances = "SELECT coalesce(sum(available + held), 0) FROM balances"
                let deleted = """
                    SELECT coalesce(sum(abs(amount)), 0) FROM transfers
                    WHERE reason = 'account deleted'
                    """
                return (
                    try Int64.fetchOne(database, sql: balances),
                    try Int64.fetchOne(database, sql: deleted) ?? 0
                )
            }
            let grants = lives.reduce(0) { $0 + $1.accounts * IdentityLife.grant }
            let purchases = lives.reduce(0) { $0 + $1.purchases * IdentityLife.purchase }
            let spends = lives.reduce(0) { $0 + $1.spends * IdentityLife.spend }
            #expect(balances == grants + purchases - spends - deleted, "SEED=\(seed)")
        }

        /// Rows that must not exist.
        private static let counted: [(finding: String, sql: String)] = [
            (
                "registered accounts without a login",
                """
                SELECT count(*) FROM accounts a WHERE a.state = 0 AND a.kind = 'registered'
                AND NOT EXISTS (
                    SELECT 1 FROM documents d WHERE d.kind = 'login' AND d.account = a.id
                )
                """
            ),
            (
                "logins without a registered account",
                """
                SELECT count(*) FROM documents d WHERE d.kind = 'login' AND NOT EXISTS (
                    SELECT 1 FROM accounts a
                    WHERE a.id = d.account AND a.kind = 'registered' AND a.state <> 1
                )
                """
            ),
            (
                "guests with an e-mail address",
                "SELECT count(*) FROM accounts WHERE kind = 'guest' AND email IS NOT NULL"
            ),
            (
                "records of merged guests",
                """
                SELECT count(*) FROM records r JOIN accounts a ON a.id = r.owner
                WHERE a.state = 1 AND r.deleted_at IS NULL
                """
            ),
            (
                "records in two accounts",
                """
                SELECT count(*) FROM (
                    SELECT 1 FROM records WHERE deleted_at IS NULL
                    GROUP BY collection, id HAVING count(*) > 1
                )
                """
            ),
            (
                "balances of merged guests",
                """
                SELECT count(*) FROM balances b JOIN accounts a ON a.id = b.account
                WHERE a.state = 1
                """
            ),
            (
                "sessions of merged guests that have not ended",
                """
                SELECT count(*) FROM sessions s JOIN accounts a ON a.id = s.account
                WHERE a.state = 1 AND s.ended_at IS NULL
                """
            ),
        ]
    }
}
