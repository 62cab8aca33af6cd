import AsyncHTTPClient
import Foundation
import GRDB
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `sanguine backup` and `sanguine restore`, and damaged data.
    @Suite("Backup and restore", .bounded(.seconds(240)))
    struct BackupTests {
        private static let environment = [
            "SANGUINE_LOG_ACCESS": "false", "SANGUINE_ACCOUNTS_GRANT": "1000000",
            "SANGUINE_LIMITS_REQUESTS_PER_MINUTE": "6000000",
        ]

        private static func expectVerified(_ folder: URL) async throws {
            for command in [["ledger", "verify"], ["doctor"]] {
                let ended = try await Tool.with(command + ["--data", folder.path]) {
                    try await $0.ended()
                }
                #expect(ended.status == 0, "\(command): \(ended.output)\(ended.errors)")
            }
        }

        /// Spends until the task is cancelled, and returns the number of spends.
        private static func spend(_ api: API, _ guest: API.Guest, _ name: String) async -> Int {
            var count = 0
            for _ in 0..<100_000 where !Task.isCancelled {
                let answer = try? await api.spend(1, "tea", key: "\(name)-\(count)", as: guest)
                if answer?.status == 200 { count += 1 }
            }
            return count
        }

        @Test func `ten backups of a busy server are complete, and one of them is restored`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backups = folder.appending(path: "backups")
                try await ServeProcess.with(data: data, environment: Self.environment) { server in
                    let guests = try await concurrently(4) {
                        try await server.api.guest("a-device-of-a-writer-\($0)")
                    }
                    let writers = guests.enumerated().map { number, guest in
                        Task { await Self.spend(server.api, guest, "\(number)") }
                    }
                    defer { for writer in writers { writer.cancel() } }
                    for number in 1...10 {
                        let target = backups.appending(path: "\(number)")
                        let made = try await Tool.run(
                            "backup",
                            target.path,
                            "--data",
                            data.path,
                            "--json"
                        )
                        #expect(made.status == 0, "\(made.errors)")
                        let report = try made.decode(JSONValue.self)
                        #expect(report["accounts"] == .integer(4))
                        try await Self.expectVerified(target)
                    }
                    for writer in writers {
                        writer.cancel()
                        #expect(try await writer.finished() > 0)
                    }
                    try await Self.expectVerified(data)
                    #expect(try await server.stop().status == 0)
                }
                let names = try FileManager.default.contentsOfDirectory(atPath: backups.path)
                #expect(!names.contains { $0.hasSuffix(".incomplete") })
                try await Self.restore(backups.appending(path: "7"), over: data)
            }
        }

        private static func restore(_ backup: URL, over data: URL) async throws {
            let refused = try await Tool.run("restore", backup.path, "--data", data.path)
            #expect(refused.status == 1)
            #expect(refused.errors.contains("exists and is not an empty folder"))
            let done = try await Tool.run(
                "restore",
                backup.path,
                "--data",
                data.path,
                "--replace",
                "--json"
            )
            #expect(done.status == 0, "\(done.errors)")
            let aside = try #require(try done.decode(JSONValue.self)["replaced"]?.string)
            try await expectVerified(URL(filePath: aside))
            try await ServeProcess.with(data: data, environment: environment) { server in
                let running = try await Tool.run(
                    "restore",
                    backup.path,
                    "--data",
                    data.path,
                    "--replace"
                )
                #expect(running.status == 1)
                #expect(running.errors.contains("is in use by process"))
                let guest = try await server.api.guest("a-device-of-a-writer-0")
                #expect(try await server.api.spend(1, "tea", key: "new", as: guest).status == 200)
                let entries = try await server.api.ledger(of: guest)
                let balance = try await server.api.balance(of: guest)
                #expect(entries.map(\.amount).reduce(0, +) == balance.available)
                let ended = try await server.stop()
                #expect(ended.status == 0)
                #expect(!ended.errors.contains("a new epoch"), "the restore has assigned it")
            }
        }

        @Test func `files and keys are part of a backup and work after the restore`() async throws {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backup = folder.appending(path: "backup")
                let restored = folder.appending(path: "restored")
                let picture = Data(SampleFile.png.bytes())
                let (token, id) = try await ServeProcess.with(data: data) { server in
                    let guest = try await server.api.guest()
                    let stored = try await server.api.upload(picture, as: guest)
                    let made = try await Tool.run("backup", backup.path, "--data", data.path)
                    #expect(made.status == 0, "\(made.errors)")
                    #expect(made.output.contains("1 files"))
                    #expect(try await server.stop().status == 0)
                    return (guest.token, stored)
                }
                let mode = try FileManager.default.attributesOfItem(
                    atPath: backup.appending(path: "keys.json").path
                )[.posixPermissions]
                #expect(mode as? Int == 0o600)
                let done = try await Tool.run("restore", backup.path, "--data", restored.path)
                #expect(done.status == 0, "\(done.errors)")
                try await ServeProcess.with(data: restored) { server in
                    let answer = try await server.api.send(.GET, "/v1/blobs/\(id)", token: token)
                    #expect(answer.status == 200)
                    #expect(try await server.stop().status == 0)
                }

                let blob = backup.appending(path: "blobs/\(id.prefix(2))/\(id)")
                try FileManager.default.removeItem(at: blob)
                let refused = try await Tool.run(
                    "restore",
                    backup.path,
                    "--data",
                    folder.appending(path: "again").path
                )
                #expect(refused.status == 1)
                #expect(refused.errors.contains("is missing"))
                for command in [["ledger", "verify"], ["doctor"]] {
                    let ended = try await Tool.with(command + ["--data", backup.path]) {
                        try await $0.ended()
                    }
                    #expect(ended.status == 1)
                    #expect(ended.output.contains(id))
                }
            }
        }

        @Test func `an interrupted backup leaves no folder or a complete one`() async throws {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                try await ServeProcess.with(data: data) { server in
                    _ = try await server.api.guest()
                    #expect(try await server.stop().status == 0)
                }
                // Enough pages that the signal arrives while they are copied.
                let queue = try DatabaseQueue(path: data.appending(path: "sanguine.sqlite").path)
                try await queue.write { database in
                    try database.execute(sql: "CREATE TABLE filler (bytes BLOB)")
                    for _ in 1...64 {
                        try database.execute(
                            sql: "INSERT INTO filler (bytes) VALUES (randomblob(1048576))"
                        )
                    }
                }
                try queue.close()
                for number in 1...3 {
                    let backup = folder.appending(path: "backup-\(number)")
                    let draft = backup.path + ".incomplete/sanguine.sqlite"
                    let ended = try await Tool.with(
                        ["backup", backup.path, "--data", data.path]
                    ) { tool in
                        try await eventually("the copy has begun", within: .seconds(30)) {
                            FileManager.default.fileExists(atPath: draft)
                        }
                        tool.signal(SIGINT)
                        return try await tool.ended()
                    }
                    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                    #expect(!names.contains { $0.hasSuffix(".incomplete") }, "\(names)")
                    guard ended.status == 0 else {
                        #expect(ended.errors.contains("Stopped before the copy was complete"))
                        #expect(!names.contains(backup.lastPathComponent))
                        continue
                    }
                    // The backup was complete when the signal arrived.
                    try await Self.expectVerified(backup)
                }
            }
        }

        @Test func `an incomplete backup is refused, and nothing is replaced`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backup = folder.appending(path: "backup")
                try await ServeProcess.with(data: data) { server in
                    _ = try await server.api.guest()
                    #expect(try await server.stop().status == 0)
                }
                #expect(
                    try await Tool.run("backup", backup.path, "--data", data.path).status == 0
                )
                let database = backup.appending(path: "sanguine.sqlite")
                let whole = try Data(contentsOf: database)
                for size in [whole.count / 2, 100, 0] {
                    try whole.prefix(size).write(to: database)
                    let refused = try await Tool.run(
                        "restore",
                        backup.path,
                        "--data",
                        data.path,
                        "--replace"
                    )
                    #expect(refused.status == 1, "\(size)")
                    #expect(
                        refused.errors.contains(backup.path)
                            && refused.errors.contains("another backup"),
                        "\(size): \(refused.errors)"
                    )
                    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                    #expect(Set(names) == ["backup", "data"])
                }
                try await Self.expectVerified(data)
            }
        }

        @Test func `wrong usage exits with 2, and a failed backup with 1`() async throws {
            try await TemporaryFolder.with { folder in
                #expect(try await Tool.run("backup").status == 2)
                #expect(try await Tool.run("restore").status == 2)
                let missing = folder.appending(path: "missing").path
                let target = folder.appending(path: "target").path
                let nothing = try await Tool.run("backup", target, "--data", missing)
                #expect(nothing.status == 1)
                #expect(nothing.errors.contains("There is no data at"))
                let nowhere = try await Tool.run("restore", missing, "--data", target)
                #expect(nowhere.status == 1)
                #expect(nowhere.errors.contains("There is no backup at"), "\(nowhere.errors)")
                #expect(!nowhere.errors.contains("start the server"), "\(nowhere.errors)")
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).isEmpty)
            }
        }

        @Test func `a balance that differs from the sum of its entries stops all changes`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data) { server in
                    _ = try await server.api.guest()
                    #expect(try await server.stop().status == 0)
                }
                let queue = try DatabaseQueue(path: data.appending(path: "sanguine.sqlite").path)
                try await queue.write {
                    try $0.execute(sql: "UPDATE balances SET available = available + 179")
                }
                try queue.close()
                try await ServeProcess.with(data: data) { server in
                    let ready = try await server.api.send(.GET, "/health/ready")
                    #expect(ready.code?.rawValue == "data_damaged")
                    let refused = try await server.api.signIn("a-device-that-is-new")
                    #expect(refused.status == 503)
                    #expect(refused.code == .overloaded)
                    #expect(refused.header("Retry-After") == "60")
                    #expect(try await server.api.send(.GET, "/health/live").status == 200)
                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    let lines = ended.errors.split(separator: "\n")
                    #expect(lines.count { $0.contains("The data is damaged") } == 1)
                }
            }
        }
    }
}

extension API {
    /// Uploads a file and returns its id.
    fileprivate func upload(_ file: Data, as guest: Guest) async throws -> String {
        var request = HTTPClientRequest(url: base + "/v1/blobs")
        request.method = .POST
        request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
        request.headers.add(name: "Content-Type", value: "image/png")
        request.body = .bytes(ByteBuffer(bytes: file))
        let response = try await http.execute(request, timeout: .patient(30))
        let body = try await response.body.collect(upTo: 1 << 20)
        let facts = try JSONDecoder().decode(BlobFacts.self, from: Data(body.readableBytesView))
        return facts.id
    }
}
