import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine
@testable import SanguineCommand

extension EndToEnd {
    /// An operator puts an older copy of the stopped data folder in its place.
    @Suite("A restored data folder", .bounded(.seconds(120)))
    struct RestoredFolderTests {
        @Test func `a device whose cursor is older or newer shows what the restored server has`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backup = folder.appending(path: "backup")
                let device = folder.appending(path: "device")
                let first = try await LocalServer.with(folder: data) { server in
                    try await Self.notes(device, server) { client, guest in
                        try await Self.write("kept", 1...1, guest, server.api)
                        try await client.synchronize()
                    }
                    return server.port
                }
                try FileManager.default.copyItem(at: data, to: backup)
                let ghosts = try await LocalServer.with(folder: data, port: first) { server in
                    try await Self.notes(device, server) { client, guest in
                        try await Self.write("ghost", 1...20, guest, server.api)
                        try await client.synchronize()
                    }
                }
                #expect(ghosts.count == 21)
                try FileManager.default.removeItem(at: data)
                try FileManager.default.copyItem(at: backup, to: data)
                let shown = try await LocalServer.with(folder: data, port: first) { server in
                    try await Self.notes(device, server) { client, guest in
                        try await Self.write("new", 1...40, guest, server.api)
                        try await client.synchronize()
                    }
                }
                #expect(shown == Set(["kept1"] + (1...40).map { "new\($0)" }))
            }
        }

        @Test func `the log says that a start took the database for a copy`() async throws {
            try await TemporaryFolder.with { data in
                for isCopy in [false, false, true, false] {
                    if isCopy {
                        let history = data.appending(path: "sanguine.history")
                        try FileManager.default.removeItem(at: history)
                    }
                    let ended = try await ServeProcess.with(data: data) { try await $0.stop() }
                    #expect(ended.status == 0)
                    let lines = ended.errors.split(separator: "\n")
                    #expect(lines.count { $0.contains("a new epoch") } == (isCopy ? 1 : 0))
                }
            }
        }

        /// The ids of the notes that the device shows after the body.
        @discardableResult
        private static func notes(
            _ device: URL,
            _ server: LocalServer,
            _ body: (SanguineClient, API.Guest) async throws -> Void
        ) async throws -> Set<String> {
            let configuration = SanguineClient.Configuration.of(port: server.port, folder: device)
            let client = try SanguineClient(configuration)
            defer { client.close() }
            try await client.synchronize()
            try await body(client, try await server.api.guest(of: device))
            return Set(client.records(Note.self).map(\.id.text))
        }

        /// Creates notes, as another device of the account does.
        private static func write(
            _ name: String,
            _ numbers: ClosedRange<Int64>,
            _ guest: API.Guest,
            _ api: API
        ) async throws {
            let operations = numbers.map { number in
                PushedOperation(
                    id: Identifier(at: SystemWallClock().now()),
                    sequence: number,
                    lane: "notes",
                    mutator: "record.create",
                    arguments: [
                        "collection": "notes", "id": .string("\(name)\(number)"),
                        "fields": ["text": "hello"],
                    ]
                )
            }
            let request = PushRequest(device: "another-device-of-\(name)", operations: operations)
            let answer = try await api.send(
                .POST,
                "/v1/sync/push",
                token: guest.token,
                json: request
            )
            let results = try answer.decode(PushAnswer.self).results
            #expect(results.allSatisfy { $0.status == .applied }, "\(answer.text)")
            #expect(answer.header("Sanguine-Epoch") != nil)
        }
    }
}
