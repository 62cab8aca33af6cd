import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Full disks and read-only disks.
    @Suite("Disks", .bounded(.seconds(120)))
    struct DiskTests {
        @Test(Mounts.areNeeded)
        func `a full disk makes the server unready until it has space again`() async throws {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(
                    data: data,
                    shell: Mounts.disk(data, mebibytes: 8)
                ) { server in
                    let guest = try await server.api.guest()
                    #expect(try await server.api.send(.GET, "/health/ready").status == 200)
                    let free = try #require(try await server.metric("data_free_bytes"))
                    #expect(free > 1_048_576)

                    // The disk as the server sees it.
                    let filler = URL(filePath: "/proc/\(server.tool.process)/root\(data.path)/x")
                    try Self.fill(filler)
                    #expect(try await server.metric("data_free_bytes") == 0.0)
                    try await Self.untilReady(server, "disk_full")
                    let refused = try await Self.spendUntilRefused(server, guest)
                    #expect(refused.answer.status == 503)
                    #expect(refused.answer.code == .overloaded)
                    #expect(try await server.api.send(.GET, "/health/live").status == 200)

                    try FileManager.default.removeItem(at: filler)
                    try await Self.untilReady(server, nil)
                    let spent = try await server.api.spend(1, "tea", key: refused.key, as: guest)
                    #expect(spent.status == 200)
                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    #expect(ended.errors.ranges(of: "is filling up").count == 1)
                }
            }
        }

        private static func fill(_ file: URL) throws {
            try Data().write(to: file)
            let handle = try FileHandle(forWritingTo: file)
            defer { try? handle.close() }
            for size in [1 << 16, 1 << 12] {
                let block = Data(repeating: 0, count: size)
                var blocks = 0
                while (try? handle.write(contentsOf: block)) != nil { blocks += 1 }
                guard blocks < 1 << 16 else { throw Unexpected("The disk never filled up.") }
            }
        }

        /// Spends until the storage refuses, which takes a while because the log has reserved
        /// space.
        private static func spendUntilRefused(
            _ server: ServeProcess,
            _ guest: API.Guest
        ) async throws -> (key: String, answer: API.Answer) {
            for number in 1...90 {
                let key = "spend-\(number)"
                let answer = try await server.api.spend(1, "tea", key: key, as: guest)
                if answer.status != 200 { return (key, answer) }
            }
            throw Unexpected("The disk never filled up.")
        }

        private static func untilReady(_ server: ServeProcess, _ code: String?) async throws {
            try await eventually(
                "the server is ready, or \(code ?? "not")",
                within: TestingLimits.longestWait
            ) {
                let answer = try await server.api.send(.GET, "/health/ready")
                return answer.status == (code == nil ? 200 : 503) && answer.code?.rawValue == code
            }
        }

        @Test(
            Mounts.areNeeded,
            arguments: [
                "after a clean stop", "after a kill", "after a kill, without shared memory",
            ]
        )
        func `a ledger on a read-only disk is verified, including every spend`(
            state: String
        ) async throws {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data) { server in
                    let guest = try await server.api.guest()
                    for number in 1...3 {
                        _ = try await server.api.spend(1, "tea", key: "\(number)", as: guest)
                    }
                    server.tool.signal(state == "after a clean stop" ? SIGTERM : SIGKILL)
                    _ = try await server.tool.ended()
                }
                if state == "after a kill, without shared memory" {
                    let memory = data.appending(path: "sanguine.sqlite-shm")
                    try FileManager.default.removeItem(at: memory)
                }
                let verified = try await Self.run(["ledger", "verify"], on: data)
                #expect(verified.status == 0, "\(verified.errors)")
                let expected = "1 accounts, 4 transfers, 0 differences, 0 audited acts\n"
                #expect(verified.output == expected)

                let shown = try await Self.run(
                    ["account", "show", "--device", "a-device-of-a-guest", "--json"],
                    on: data
                )
                #expect(try shown.decode(JSONValue.self)["available"] == 97)

                // The doctor reads the folder too, and reports why no server can run on it.
                let examined = try await Self.run(["doctor"], on: data)
                #expect(examined.status == 1)
                #expect(examined.output.contains("ok       integrity"))
                #expect(examined.output.contains("failed   space"))
                let served = try await Self.run(["serve", "--port", "0"], on: data)
                #expect(served.status == 1)
                #expect(served.errors.contains("cannot be written"))
            }
        }

        @Test(Mounts.areNeeded)
        func `a restore to a mount point is refused, and another location is suggested`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backup = folder.appending(path: "backup")
                let disk = folder.appending(path: "disk")
                try await ServeProcess.with(data: data) { server in
                    _ = try await server.api.guest()
                    #expect(try await server.stop().status == 0)
                }
                let made = try await Tool.run("backup", backup.path, "--data", data.path)
                #expect(made.status == 0, "\(made.errors)")
                try FileManager.default.createDirectory(
                    at: disk,
                    withIntermediateDirectories: true
                )
                let shell = Mounts.disk(disk, mebibytes: 32)
                for command in [
                    ["restore", backup.path, "--data", disk.path],
                    ["restore", backup.path, "--data", disk.path, "--replace"],
                    ["backup", disk.path, "--data", data.path],
                ] {
                    let refused = try await Tool.with(command, shell: shell) {
                        try await $0.ended()
                    }
                    #expect(refused.status == 1)
                    #expect(refused.errors.contains("A disk is mounted at \(disk.path)"))
                    #expect(refused.errors.contains("\(disk.path)/data"))
                }
                let inside = disk.appending(path: "data")
                let done = try await Tool.with(
                    ["restore", backup.path, "--data", inside.path],
                    shell: shell
                ) { try await $0.ended() }
                #expect(done.status == 0, "\(done.errors)")
                let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
                #expect(names.sorted() == ["backup", "data", "disk"])
            }
        }

        private static func run(_ command: [String], on data: URL) async throws -> Tool.Ended {
            let shell = Mounts.readOnly(data)
            return try await Tool.with(command + ["--data", data.path], shell: shell) {
                try await $0.ended()
            }
        }
    }
}
