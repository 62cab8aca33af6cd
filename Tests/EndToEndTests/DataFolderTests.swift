import Foundation
import GRDB
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Data folders that changed while the server was stopped, as an operator sees them.
    @Suite("Data folders", .bounded(.seconds(120)))
    struct DataFolderTests {
        /// Runs a server that creates the folder, and spends as a guest.
        private static func use(_ data: URL) async throws {
            try await ServeProcess.with(data: data) { server in
                let guest = try await server.api.guest()
                _ = try await server.api.spend(4, "tea", key: "a", as: guest)
                #expect(try await server.stop().status == 0)
            }
        }

        private static func start(_ data: URL, _ flags: String...) async throws -> Tool.Ended {
            let arguments = ["serve", "--data", data.path, "--port", "0", "--admin-port", "0"]
            return try await Tool.with(arguments + flags) { try await $0.ended() }
        }

        private static func remove(_ name: String, in data: URL) throws {
            try FileManager.default.removeItem(at: data.appending(path: name))
        }

        private static func findings(_ data: URL, status: Int32) async throws -> [String: String] {
            let ended = try await Tool.run("doctor", "--json", "--data", data.path)
            #expect(ended.status == status, "\(ended.output)\(ended.errors)")
            let report = try ended.decode(JSONValue.self)
            #expect(report["healthy"] == .bool(status == 0))
            guard case .array(let findings) = report["findings"] else {
                throw Unexpected("The findings are missing: \(ended.output)")
            }
            return findings.reduce(into: [:]) { found, finding in
                guard let check = finding["check"]?.string else { return }
                found[check] = finding["status"]?.string
            }
        }

        @Test func `an unused folder starts repeatedly`() async throws {
            try await TemporaryFolder.with { data in
                for _ in 1...2 {
                    try await ServeProcess.with(data: data) { server in
                        let ended = try await server.stop()
                        #expect(ended.status == 0)
                    }
                }
            }
        }

        @Test func `missing keys stop the start, unless the flag accepts new ones`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await Self.use(data)
                try Self.remove("keys.json", in: data)
                let refused = try await Self.start(data)
                #expect(refused.status == 1)
                #expect(refused.output.isEmpty)
                #expect(refused.errors.contains("are missing"))
                #expect(refused.errors.contains("'--accept-new-keys'"))
                let keys = data.appending(path: "keys.json").path
                #expect(!FileManager.default.fileExists(atPath: keys))
                let found = try await Self.findings(data, status: 1)
                #expect(found["pairing"] == "failed")

                try await ServeProcess.with(data: data, arguments: ["--accept-new-keys"]) {
                    let guest = try await $0.api.guest()
                    #expect(try await $0.api.balance(of: guest).available == 96)
                    #expect(try await $0.stop().status == 0)
                }
            }
        }

        @Test(arguments: ["gone", "empty"])
        func `a missing database stops the start, unless the flag accepts an empty one`(
            state: String
        ) async throws {
            try await TemporaryFolder.with { data in
                try await Self.use(data)
                try Self.remove("sanguine.sqlite", in: data)
                if state == "empty" {
                    try Data().write(to: data.appending(path: "sanguine.sqlite"))
                }
                for _ in 1...2 {
                    let refused = try await Self.start(data)
                    #expect(refused.status == 1)
                    #expect(refused.errors.contains("is missing or empty"))
                    #expect(refused.errors.contains("'--accept-empty-database'"))
                }
                try await ServeProcess.with(data: data, arguments: ["--accept-empty-database"]) {
                    let guest = try await $0.api.guest()
                    #expect(try await $0.api.balance(of: guest).available == 100)
                    #expect(try await $0.stop().status == 0)
                }
            }
        }

        @Test func `a folder open to other users is refused with the command that closes it`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await Self.use(data)
                #expect(chmod(data.path, 0o755) == 0)
                let refused = try await Self.start(data)
                #expect(refused.status == 1)
                #expect(refused.errors.contains("chmod 700 '\(data.path)'"))
                #expect(try await Self.findings(data, status: 1)["permissions"] == "failed")
                #expect(chmod(data.path, 0o700) == 0)
                #expect(try await Self.findings(data, status: 0)["permissions"] == "ok")
            }
        }

        @Test func `the doctor finds no fault in a healthy folder, with and without a server`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data) { server in
                    _ = try await server.api.guest()
                    let beside = try await Self.findings(data, status: 0)
                    #expect(beside["lock"] == "warning")
                    #expect(beside["integrity"] == "ok")
                    #expect(try await server.stop().status == 0)
                }
                let alone = try await Self.findings(data, status: 0)
                #expect(alone["lock"] == "ok")
                #expect(alone.count == 13)
                let reported = try await Tool.run("doctor", "--data", data.path)
                #expect(reported.status == 0)
                #expect(reported.output.contains("ok       ledger"))
                let nothing = data.appending(path: "nothing")
                #expect(try await Self.findings(nothing, status: 1) == ["folder": "failed"])
                #expect(try await Tool.run("doctor", "--nonsense").status == 2)
            }
        }

        @Test func `a damaged page makes the server unready, and the doctor finds it`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await Self.use(data)
                try Self.damage(data.appending(path: "sanguine.sqlite"))
                try await ServeProcess.with(data: data) { server in
                    let answer = try await server.api.send(.GET, "/health/ready")
                    #expect(answer.status == 503)
                    #expect(answer.code?.rawValue == "data_damaged")
                    #expect(try await server.api.send(.GET, "/health/live").status == 200)
                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    #expect(ended.errors.contains("The data is damaged"))
                }
                #expect(try await Self.findings(data, status: 1)["integrity"] == "failed")
            }
        }

        /// Overwrites the root page of the table of quotas.
        private static func damage(_ file: URL) throws {
            let queue = try DatabaseQueue(path: file.path)
            let page = try queue.read { database in
                try Int.fetchOne(
                    database,
                    sql: "SELECT rootpage FROM sqlite_master WHERE name = 'quotas'"
                )
            }
            try queue.close()
            let handle = try FileHandle(forWritingTo: file)
            try handle.seek(toOffset: UInt64((try #require(page) - 1) * 4_096))
            try handle.write(contentsOf: Data(repeating: 0xA5, count: 4_096))
            try handle.close()
        }
    }
}
