import Foundation
import GRDB
import NIOHTTP1
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Folders of an earlier version, opened by this one.
    @Suite("Old folders", .bounded(.seconds(120)))
    struct OldFolderTests {
        @Test(
            .enabled(  // tidy: allow skipped-test: a command that makes files.
                if: ProcessInfo.processInfo.environment["MAKE_OLD_FOLDERS"] != nil,
                "It replaces the old folders with folders of the current version."
            )
        )
        func `the folders are created`() async throws {
            try await TemporaryFolder.with { try await OldFolders.make(in: $0) }
            #expect(try OldFolders.archiveBytes < 300_000)
        }

        @Test func `the server and the operator's commands accept an old data folder`()
            async throws
        {
            try await OldFolders.with { old in
                try await ServeProcess.with(data: old.data) { server in
                    let guest = try await server.api.guest(OldFolders.device)
                    #expect(guest.account == old.facts.account)
                    let ready = try await server.api.send(.GET, "/health/ready")
                    #expect(ready.status == 200, "\(ready.text)")
                    #expect(try await server.stop().status == 0)
                }
                for command in [["ledger", "verify"], ["doctor"]] {
                    let ended = try await Tool.with(command + ["--data", old.data.path]) {
                        try await $0.ended()
                    }
                    #expect(ended.status == 0, "\(command): \(ended.output)\(ended.errors)")
                }
            }
        }

        @Test func `an old data folder can be backed up before its upgrade and restored`()
            async throws
        {
            try await OldFolders.with { old in
                let backup = old.folder.appending(path: "backup")
                let restored = old.folder.appending(path: "restored")
                for command in [
                    ["backup", backup.path, "--data", old.data.path],
                    ["restore", backup.path, "--data", restored.path],
                    ["doctor", "--data", restored.path],
                ] {
                    let ended = try await Tool.with(command) { try await $0.ended() }
                    #expect(ended.status == 0, "\(command): \(ended.output)\(ended.errors)")
                }
            }
        }

        @Test func `the operator's commands say that a server must open an old folder first`()
            async throws
        {
            try await OldFolders.with { old in
                for command in [["ledger", "verify"], ["doctor"]] {
                    let ended = try await Tool.with(command + ["--data", old.data.path]) {
                        try await $0.ended()
                    }
                    #expect(ended.status == 1)
                    #expect((ended.output + ended.errors).contains("Start the server once"))
                }
            }
        }

        @Test func `an account of an old data folder keeps its tokens and its data`()
            async throws
        {
            try await Self.withServer { old, api, guest in
                let balance = try await api.balance(of: guest)
                // 100 less the spend, the echo, the thought and the hold.
                #expect(balance.available == 89)
                #expect(balance.held == 5)
                let notes = try await Self.list(api, "notes", as: guest)
                #expect(notes == ["Milk", "Bread"])
                let posts = try await Self.list(api, "posts", "?order=-createdAt", as: guest)
                #expect(posts == ["Second", "First"])
                let pull = try await api.send(.GET, "/v1/sync/pull?since=0", token: guest.token)
                let changes = try pull.decode(PullAnswer.self).changes
                let texts = changes.compactMap { $0.value?["text"]?.string }
                #expect(texts == ["Milk", "Bread", "First", "Second"])
                #expect(Set(changes.map(\.collection)).isSuperset(of: ["$balance", "$quotas"]))
                let quotas = try await api.send(.GET, "/v1/quotas", token: guest.token)
                #expect(try quotas.decode([String: [Quota]].self)["items"]?.map(\.used) == [1])
            }
        }

        @Test func `lists by an index are correct after any earlier version wrote it`()
            async throws
        {
            try await OldFolders.with { old in
                // Entries of an index do not contain the version of their encoding.
                let path = old.data.appending(path: "sanguine.sqlite").path
                let queue = try DatabaseQueue(path: path)
                let count = try await queue.write { database in
                    let number = Data([4]) + Data(repeating: 0xFF, count: 16)
                    try database.execute(
                        sql: """
                            INSERT INTO record_index (collection, scope, field, value, id)
                            SELECT collection, scope, field, ?, id FROM record_index
                            """,
                        arguments: [number]
                    )
                    return try Int.fetchOne(database, sql: "SELECT count(*) FROM record_index")
                }
                try queue.close()
                #expect(count == 8)
                try await LocalServer.with(folder: old.data, clock: old.clock) { server in
                    let guest = try await server.api.guest(OldFolders.device)
                    for (order, texts) in [
                        ("createdAt", ["First", "Second"]), ("-createdAt", ["Second", "First"]),
                    ] {
                        let query = "?order=\(order)"
                        let posts = try await Self.list(server.api, "posts", query, as: guest)
                        #expect(posts == texts)
                    }
                }
                let after = try DatabaseQueue(path: path)
                let left = try await after.read {
                    try Int.fetchOne($0, sql: "SELECT count(*) FROM record_index")
                }
                try after.close()
                #expect(left == 4)
            }
        }

        @Test func `responses of an old data folder are replayed and charged once`()
            async throws
        {
            try await Self.withServer { old, api, guest in
                let spent = try await api.spend(4, "tea", key: "old-spend", as: guest)
                #expect(spent.status == 200 && spent.isReplayed)
                let echoed = try await api.echo("Hello", key: "old-call", as: guest)
                #expect(echoed.status == 200 && echoed.isReplayed)
                let found = try await api.send(.GET, "/v1/calls/old-call", token: guest.token)
                #expect(found.text.contains("Hello"), "\(found.text)")
                let thought = try await api.daily("a-new-key", as: guest)
                // The cached answer lacks its question, so a model is asked, and there is none.
                #expect(thought.code == .upstreamMissing)
                let balance = try await api.balance(of: guest)
                #expect(balance.available + balance.held == 94)
                let captured = try await api.send(
                    .POST,
                    "/v1/holds/\(old.facts.hold)/capture",
                    token: guest.token,
                    key: "a-capture",
                    json: ["amount": 2]
                )
                #expect(captured.status == 200, "\(captured.text)")
                let blob = try await api.send(
                    .GET,
                    "/v1/blobs/\(old.facts.blob)",
                    token: guest.token
                )
                #expect(blob.status == 200 && blob.header("Content-Type") == "image/jpeg")
            }
        }

        @Test func `an old client folder shows its values offline`() async throws {
            try await OldFolders.with { old in
                let client = try OldFolders.client(old.client, clock: old.clock)
                defer { client.close() }
                #expect(client.accountId == old.facts.clientAccount)
                #expect(client.storeReport.movedAside.isEmpty)
                #expect(client.cached(.balance)?.available == 100)
                #expect(client.cached(.quotas)?.map(\.remaining) == [3])
                #expect(client.cached(.account)?.id == old.facts.clientAccount)
                #expect(client.cached(.greeting) == "Hello and tea")
                #expect(client.cached(.oldRows)?.map(\.title) == ["Row 1", "Row 2", "Row 3"])
                #expect(client.record(OldNote.self, old.facts.settled)?.text == "Oat milk")
                #expect(client.record(OldNote.self, old.facts.added)?.text == "Tea")
                #expect(client.outbox.summary.unsent == 3)
                #expect(client.outbox.refused.map(\.problem.code) == [.notFound])
            }
        }

        @Test func `pending operations of an old client folder are sent exactly once`() async throws
        {
            try await OldFolders.with { old in
                let clock = old.clock
                try await LocalServer.with(folder: old.data, clock: clock) { server in
                    for _ in 1...2 {
                        let client = try OldFolders.client(
                            old.client,
                            port: server.port,
                            clock: clock
                        )
                        defer { client.close() }
                        try await client.synchronize()
                        try await eventually("all operations sent") {
                            client.outbox.summary.unsent == 0
                        }
                        #expect(client.outbox.refused.map(\.problem.code) == [.notFound])
                        #expect(client.accountId == old.facts.clientAccount)
                    }
                    let guest = try await server.api.guest(of: old.client)
                    #expect(guest.account == old.facts.clientAccount)
                    let ledger = try await server.api.ledger(of: guest)
                    #expect(ledger.map(\.amount) == [100, -2])
                    let pull = try await server.api.send(
                        .GET,
                        "/v1/sync/pull?since=0",
                        token: guest.token
                    )
                    let changes = try pull.decode(PullAnswer.self).changes
                    let texts = changes.compactMap { $0.value?["text"]?.string }
                    #expect(texts.sorted() == ["Oat milk", "Tea"])
                    #expect(try await server.audit().differences.isEmpty)
                }
            }
        }

        @Test func `a guest of an old client folder returns after the end of the session`()
            async throws
        {
            try await OldFolders.with { old in
                try await Self.endSessions(in: old)
                try await LocalServer.with(folder: old.data, clock: old.clock) { server in
                    for _ in 1...2 {
                        let client = try OldFolders.client(
                            old.client,
                            port: server.port,
                            clock: old.clock
                        )
                        defer { client.close() }
                        try await client.synchronize()
                        try await eventually("all operations sent") {
                            client.outbox.summary.unsent == 0
                        }
                        #expect(client.accountId == old.facts.clientAccount)
                        #expect(client.record(OldNote.self, old.facts.settled)?.text == "Oat milk")
                    }
                    let guest = try await server.api.guest(of: old.client)
                    #expect(guest.account == old.facts.clientAccount)
                    let ledger = try await server.api.ledger(of: guest)
                    #expect(ledger.map(\.amount) == [100, -2])
                }
            }
        }

        /// Ends every session on the server, and checks that the client's session names no device.
        private static func endSessions(in old: OldFolders) async throws {
            let server = try DatabaseQueue(path: old.data.appending(path: "sanguine.sqlite").path)
            try await server.write { try $0.execute(sql: "DELETE FROM sessions") }
            try server.close()
            let file = old.client.appending(path: "users/1/sanguine-client.sqlite")
            let client = try DatabaseQueue(path: file.path)
            let session = try await client.read {
                try Data.fetchOne($0, sql: "SELECT data FROM state WHERE name = 'session'")
            }
            try client.close()
            let stored = try JSONDecoder().decode(JSONValue.self, from: try #require(session))
            #expect(stored["account"]?.string == old.facts.clientAccount.description)
            #expect(stored["guestDevice"] == nil)
        }

        /// Runs a server on the old data folder, shortly after the folder was created.
        private static func withServer(
            _ body: @escaping @Sendable (OldFolders, API, API.Guest) async throws -> Void
        ) async throws {
            try await OldFolders.with { old in
                try await LocalServer.with(folder: old.data, clock: old.clock) { server in
                    let refreshed = try await server.api.refresh(old.facts.refreshToken)
                    #expect(refreshed.status == 200, "\(refreshed.text)")
                    let guest = API.Guest(
                        account: old.facts.account,
                        session: try refreshed.decode(Refreshed.self).session
                    )
                    try await body(old, server.api, guest)
                    #expect(try await server.audit().differences.isEmpty)
                }
            }
        }

        private static func list(
            _ api: API,
            _ collection: String,
            _ query: String = "",
            as guest: API.Guest
        ) async throws -> [String] {
            let path = "/v1/collections/\(collection)/records\(query)"
            let answer = try await api.send(.GET, path, token: guest.token)
            let items = try answer.decode(ListPage<JSONValue>.self).items
            return items.compactMap { ($0["value"] ?? $0)["text"]?.string }
        }
    }
}
