import Foundation
import NIOHTTP1
import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Records, the balance, the quotas and the account, played against their cells.
    @Suite("Storage matrix: data of the server", .bounded(.seconds(120)))
    struct StoredDataCellTests {
        private struct Stage: Sendable {
            let root: URL
            let server: LocalServer
            let clock: ManualWallClock

            func client(
                _ name: String,
                sharing other: String? = nil,
                _ network: RecordedNetwork = RecordedNetwork()
            ) throws -> SanguineClient {
                let folder = root.appending(path: name)
                if let other {
                    try DeviceIdentityFile(in: root.appending(path: other)).copy(to: folder)
                }
                var configuration = SanguineClient.Configuration.of(
                    port: server.port,
                    folder: folder,
                    clock: clock
                )
                configuration.transport = network
                configuration.timeZone = "UTC"
                configuration.register(OwnNote.self, OpenPost.self)
                return try SanguineClient(configuration)
            }
        }

        private static func withStage(
            _ body: @escaping @Sendable (Stage, PrintedMatrix) async throws -> Void
        ) async throws {
            let clock = ManualWallClock()
            try await TemporaryFolder.with { root in
                let data = root.appending(path: "data")
                try await LocalServer.with(folder: data, clock: clock) { server in
                    let stage = Stage(root: root, server: server, clock: clock)
                    let client = try stage.client("matrix")
                    defer { client.close() }
                    try await body(stage, PrintedMatrix(client.matrix()))
                }
            }
        }

        // MARK: - Values

        /// One of the client's own queries.
        private struct Value: Sendable {
            let name: String
            let path: String
            let read: @Sendable (SanguineClient) async throws -> Void
            let isCached: @Sendable (SanguineClient) -> Bool
        }

        private static let values = [
            Value(
                name: "$balance",
                path: "/v1/balance",
                read: { _ = try await $0.value(of: .balance) },
                isCached: { $0.cached(.balance) != nil }
            ),
            Value(
                name: "$quotas",
                path: "/v1/quotas",
                read: { _ = try await $0.value(of: .quotas) },
                isCached: { $0.cached(.quotas) != nil }
            ),
            Value(
                name: "$account",
                path: "/v1/account",
                read: { _ = try await $0.value(of: .account) },
                isCached: { $0.cached(.account) != nil }
            ),
        ]

        @Test func `the client's own values are cached for the time in their cells`()
            async throws
        {
            try await Self.withStage { stage, matrix in
                for value in Self.values {
                    let network = RecordedNetwork()
                    let client = try stage.client("fresh-\(value.name)", network)
                    defer { client.close() }
                    func reads() -> Int {
                        network.requests.count {
                            $0.method == "GET" && $0.url.path() == value.path
                        }
                    }
                    let life = try matrix.life(value.name, "client")
                    let end = try #require(life.end(from: stage.clock.now()))
                    try await value.read(client)
                    let first = reads()
                    try await value.read(client)
                    stage.clock.advance(by: end - .seconds(1))
                    try await value.read(client)
                    #expect(reads() == first, "\(value.name)")
                    stage.clock.advance(by: .seconds(2))
                    try await value.read(client)
                    #expect(reads() == first + 1, "\(value.name)")
                }
            }
        }

        @Test func `the client's own values survive a restart and end with a sign-out`()
            async throws
        {
            try await Self.withStage { stage, matrix in
                for value in Self.values {
                    let name = "kept-\(value.name)"
                    let first = try stage.client(name)
                    try await value.read(first)
                    try await first.waitUntilIdle()
                    first.close()
                    let client = try stage.client(name)
                    defer { client.close() }
                    let isOnDisk = try matrix.cell(value.name, "tier") == "onDisk"
                    #expect(value.isCached(client) == isOnDisk, "\(value.name)")

                    let isUsers = try matrix.cell(value.name, "client for") == "user"
                    await client.signOut()
                    #expect(value.isCached(client) == !isUsers, "\(value.name)")
                    #expect(try matrix.cell(value.name, "restored") == "next read")
                    try await value.read(client)
                    #expect(value.isCached(client), "\(value.name)")
                }
            }
        }

        @Test func `the balance is read from the database, with the history of its cells`()
            async throws
        {
            try await Self.withStage { stage, matrix in
                let (phone, other) = (try stage.client("phone"), try stage.client("another"))
                defer { for client in [phone, other] { client.close() } }
                for number in 1...12 {
                    try await phone.call(Echo(text: "\(number)"))
                    #expect(try await phone.refresh(.balance).available == Int64(100 - number))
                }
                // Never cached on the server: each request reads the current amount.
                #expect(try matrix.cell("$balance", "server") == "database")
                #expect(try await other.refresh(.balance).available == 100)

                #expect(try matrix.cell("$balance", "client history") == "last 10")
                #expect(phone.balanceHistory.count == 10)
                #expect(try matrix.cell("$balance", "server history") == "ledger")
                let guest = try await stage.server.api.guest(
                    of: stage.root.appending(path: "phone")
                )
                let ledger = try await stage.server.api.ledger(of: guest)
                #expect(ledger.map(\.amount).reduce(0, +) == 88)
                #expect(ledger.count >= 13)
            }
        }

        // MARK: - Records

        private static let text = "text-of-a-record"

        /// Creates a record in each collection, and sends both.
        private static func write(_ client: SanguineClient, _ clock: ManualWallClock) async throws {
            for collection in [OwnNote.collection, OpenPost.collection] {
                let id = RecordID(Identifier(at: clock.now()))
                let fields: RecordFields = ["text": .string(text)]
                try client.perform(CreateRecord(RecordKey(collection.name, id), fields))
            }
            try await client.synchronize()
            try await client.waitUntilIdle()
        }

        private static func expectShown(
            _ isShown: Bool,
            _ client: SanguineClient,
            _ comment: Comment
        ) {
            let count = isShown ? 1 : 0
            #expect(client.records(OwnNote.self).count == count, comment)
            #expect(client.records(OpenPost.self).count == count, comment)
        }

        @Test func `records are restored by the feed, mirrored, and end with a sign-out`()
            async throws
        {
            try await Self.withStage { stage, matrix in
                for name in ["notes", "posts"] {
                    let row = ["client", "kept", "tier", "client for", "client history"]
                    #expect(
                        try row.map { try matrix.cell(name, $0) }
                            == ["feed", "until sign-out", "onDisk", "user", "mirror"]
                    )
                    #expect(try matrix.cell(name, "restored") == "feed")
                }
                let phone = try stage.client("phone")
                try await Self.write(phone, stage.clock)
                phone.close()

                let restarted = try stage.client("phone")
                Self.expectShown(true, restarted, "after a restart, from the disk")
                // A device of the account that had no data at all.
                let other = try stage.client("other", sharing: "phone")
                try await other.synchronize()
                Self.expectShown(true, other, "after a restore")
                await restarted.signOut()
                Self.expectShown(false, restarted, "after a sign-out")
                for client in [restarted, other] { client.close() }
            }
        }

        @Test func `another account reads the records whose cell says everyone`() async throws {
            try await Self.withStage { stage, matrix in
                let (one, other) = (try stage.client("one"), try stage.client("stranger"))
                defer { for client in [one, other] { client.close() } }
                try await Self.write(one, stage.clock)
                try await other.synchronize()
                Self.expectShown(false, other, "in the mirror of another account")

                let api = stage.server.api
                let guest = try await api.guest(of: stage.root.appending(path: "stranger"))
                for name in ["notes", "posts"] {
                    let path = "/v1/collections/\(name)/records"
                    let answer = try await api.send(.GET, path, token: guest.token)
                    let isPublic = try matrix.cell(name, "server for") == "everyone"
                    #expect(answer.text.contains(Self.text) == isPublic, "\(name)")
                }
            }
        }
    }
}

private struct OwnNote: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var text: String
}

private struct OpenPost: SyncedRecord {
    static let collection = RecordCollection(
        "posts",
        access: .everyone,
        indexes: ["createdAt"]
    )
    let id: RecordID
    var text: String
}
