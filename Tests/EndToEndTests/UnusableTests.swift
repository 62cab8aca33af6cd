import Foundation
import SanguineModel
import TestSupport
import Testing

extension EndToEnd {
    /// Unknown ids and unusable folders.
    @Suite("Unusable setups", .bounded)
    struct UnusableTests {
        private static let id = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"

        @Test(arguments: [
            ["rm", id], ["edit", id, "Oat milk"], ["retry", id], ["discard", id],
        ])
        func `an unknown id is refused, online and offline`(
            command: [String]
        ) async throws {
            try await TemporaryFolder.with { folder in
                try await ServeProcess.with(data: folder.appending(path: "data")) { server in
                    let phone = NoteDevice(
                        folder: folder.appending(path: "phone"),
                        port: server.port
                    )
                    _ = try await phone.add("Milk")
                    for options in [[], ["--offline"]] {
                        let ended = try await Tool.with(phone.arguments(command + options)) {
                            try await $0.ended()
                        }
                        #expect(ended.status == 1, "\(ended.output)")
                        #expect(ended.output.isEmpty)
                        #expect(ended.errors.hasPrefix("Error: "))
                        #expect(ended.errors.contains("'\(Self.id)'"), "\(ended.errors)")
                        #expect(ended.errors.contains("'sanguine note list'"), "\(ended.errors)")
                    }
                    // The refused command left nothing pending.
                    let listed = try await phone.list()
                    #expect(listed.waiting == 0 && listed.refused.isEmpty)
                    #expect(listed.notes.map(\.text) == ["Milk"])
                }
            }
        }

        /// Every command that stores a client's state.
        private static let clients: [[String]] = [
            ["note", "list"], ["note", "list", "--json"], ["note", "list", "--offline"],
            ["note", "add", "Milk"], ["note", "add", "Milk", "--offline"], ["note", "rm", id],
            ["note", "edit", id, "Milk"], ["note", "retry", id], ["note", "discard", id],
            ["balance"], ["quota"], ["ask", "Why?"],
        ]

        private static func expectRefusal(
            _ command: [String],
            _ option: String,
            _ path: String
        ) async throws {
            let ended = try await Tool.with(command + [option, path]) { try await $0.ended() }
            let said = "\(command): \(ended.output)\(ended.errors)"
            #expect(ended.status == 1, "\(said)")
            #expect(ended.output.isEmpty, "\(said)")
            #expect(ended.errors.contains("'\(path)'"), "\(said)")
            #expect(ended.errors.contains("'\(option)'"), "\(said)")
            #expect(ended.errors.split(separator: "\n").count == 1, "\(said)")
            for raw in ["SQLite", "Domain", "Code="] {
                #expect(!ended.errors.contains(raw), "\(said)")
            }
        }

        @Test(arguments: clients)
        func `a client folder that is a file is refused with its path and the option`(
            command: [String]
        ) async throws {
            try await TemporaryFolder.with { folder in
                let file = folder.appending(path: "file")
                try Data("no folder".utf8).write(to: file)
                let nothing = ["--server", "http://127.0.0.1:1"]
                for path in [file.path, file.appending(path: "phone").path] {
                    try await Self.expectRefusal(command + nothing, "--folder", path)
                }
                #expect(try Data(contentsOf: file) == Data("no folder".utf8))
            }
        }

        @Test(arguments: [
            "sanguine-client.sqlite", "sanguine-outbox.sqlite", "sanguine-records.sqlite",
        ])
        func `a client folder whose database is a folder is refused with its path`(
            name: String
        ) async throws {
            try await TemporaryFolder.with { folder in
                let phone = folder.appending(path: "phone")
                try FileManager.default.createDirectory(
                    at: phone.appending(path: "\(name)/in the way"),
                    withIntermediateDirectories: true
                )
                for command in [["note", "list"], ["note", "add", "Milk"]] {
                    try await Self.expectRefusal(
                        command + ["--offline"],
                        "--folder",
                        phone.path
                    )
                }
            }
        }

        @Test func `an identity that cannot be copied is refused with the path and the option`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let (file, phone) = (
                    folder.appending(path: "file"), folder.appending(path: "phone")
                )
                try Data().write(to: file)
                try FileManager.default.createDirectory(
                    at: phone,
                    withIntermediateDirectories: true
                )
                try Data("{}".utf8).write(to: phone.appending(path: "device-identity.json"))
                try await Self.expectRefusal(
                    ["note", "list", "--identity-from", phone.path],
                    "--folder",
                    file.appending(path: "laptop").path
                )
            }
        }

        @Test func `a server without the FFmpeg it needs says what to install`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let file = folder.appending(path: "sanguine.yaml")
                let settings = """
                    upstream:
                      url: http://127.0.0.1:1
                      video: frames
                    video:
                      ffmpeg: \(folder.path)/ffmpeg
                    """
                try Data(settings.utf8).write(to: file)
                let ended = try await Tool.run(
                    "serve",
                    "--data",
                    folder.appending(path: "data").path,
                    "--port",
                    "0",
                    "--admin-port",
                    "0",
                    "--config",
                    file.path
                )
                #expect(ended.status == 1, "\(ended.errors)")
                #expect(ended.errors.contains("Install FFmpeg"), "\(ended.errors)")
            }
        }

        @Test(arguments: [
            ["serve", "--port", "0", "--admin-port", "0", "--log-level", "critical"],
            ["ledger", "verify"], ["account", "show", "--id", id],
        ])
        func `a server folder that is a file is refused with its path and the option`(
            command: [String]
        ) async throws {
            try await TemporaryFolder.with { folder in
                let file = folder.appending(path: "file")
                try Data().write(to: file)
                for path in [file.path, file.appending(path: "data").path] {
                    try await Self.expectRefusal(command, "--data", path)
                }
            }
        }
    }
}
