import Foundation
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine
@testable import SanguineCommand

extension EndToEnd {
    /// An operator replaces the data folder of a stopped server with an older copy.
    @Suite("Restored data folders", .bounded(.seconds(120)))
    struct RestoredFolderTests {
        @Test
        func `a device shows the restored server's data whether its cursor is older or newer`()
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

        @Test func `a cursor equal to the restored server's position is replaced once`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backup = folder.appending(path: "backup")
                let device = folder.appending(path: "device")
                let port = try await LocalServer.with(folder: data) { server in
                    try await Self.notes(device, server) { client, guest in
                        try await Self.write("kept", 1...1, guest, server.api)
                        try await client.synchronize()
                    }
                    return server.port
                }
                try FileManager.default.copyItem(at: data, to: backup)
                let cursor = WatchedState<Int64>(0)
                let ghosts = try await LocalServer.with(folder: data, port: port) { server in
                    try await Self.notes(device, server) { client, guest in
                        try await Self.write("ghost", 1...5, guest, server.api)
                        try await client.synchronize()
                        let head = try await Self.head(guest, server.api)
                        cursor.withLock { $0 = head }
                    }
                }
                #expect(ghosts.count == 6)
                try FileManager.default.removeItem(at: data)
                try FileManager.default.copyItem(at: backup, to: data)
                let pulls = WatchedState<[Bool]>([])
                let shown = try await LocalServer.with(folder: data, port: port) { server in
                    let guest = try await server.api.guest(of: device)
                    try await Self.write("new", 1...5, guest, server.api)
                    #expect(try await Self.head(guest, server.api) == cursor.value)
                    return try await Self.notes(device, server, pulls) { client, _ in
                        for _ in 0..<5 { try await client.synchronize() }
                    }
                }
                #expect(shown == Set(["kept1"] + (1...5).map { "new\($0)" }))
                // The live feed may bring the reset instead.
                #expect(pulls.value.count { $0 } <= 1, "\(pulls.value)")
            }
        }

        @Test func `a device shows the threads of the restored server, without later messages`()
            async throws
        {
            let (thread, late) = (RecordID.new(), RecordID.new())
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let backup = folder.appending(path: "backup")
                let port = try await Self.talk(in: folder) { client in
                    try await client.call(Echo(text: "kept"), in: thread)
                    try await Self.expect(["kept", "kept"], in: thread, client, available: 99)
                }
                try FileManager.default.copyItem(at: data, to: backup)
                try await Self.talk(in: folder, port: port) { client in
                    try await client.call(Echo(text: "ghost"), in: thread)
                    try await client.call(Echo(text: "ghost"), in: late)
                    let all = ["kept", "kept", "ghost", "ghost"]
                    try await Self.expect(all, in: thread, client, available: 97)
                    #expect(client.threads.list().count == 2)
                }
                try FileManager.default.removeItem(at: data)
                try FileManager.default.copyItem(at: backup, to: data)
                try await Self.talk(in: folder, port: port) { client in
                    try await Self.expect(["kept", "kept"], in: thread, client, available: 99)
                    #expect(client.threads.list().map(\.id) == [thread])
                    try await client.call(Echo(text: "new"), in: thread)
                    let all = ["kept", "kept", "new", "new"]
                    try await Self.expect(all, in: thread, client, available: 98)
                }
            }
        }

        /// Runs a server whose function keeps history, and a client of it.
        ///
        /// - Returns: The port of the server.
        @discardableResult
        private static func talk(
            in folder: URL,
            port: Int = 0,
            _ body: @escaping @Sendable (SanguineClient) async throws -> Void
        ) async throws -> Int {
            var settings = ServerSettings()
            let rules = FunctionRules(price: .fixed(1), keepsHistory: true)
            settings.functions = [FunctionSetting(name: "echo", kind: .echo, rules: rules)]
            let data = folder.appending(path: "data")
            return try await LocalServer.with(
                folder: data,
                settings: settings,
                port: port
            ) { server in
                let client = try server.client(folder: folder.appending(path: "device"))
                defer { client.close() }
                try await body(client)
                #expect(try await server.audit().differences.isEmpty)
                return server.port
            }
        }

        /// Waits until a thread on the device has these texts, and the balance this amount.
        private static func expect(
            _ texts: [String],
            in thread: RecordID,
            _ client: SanguineClient,
            available: Int64
        ) async throws {
            try await eventually(
                "the thread has the messages \(texts)",
                within: TestingLimits.longestWait
            ) {
                try await client.synchronize()
                let messages = client.threads.messages(of: thread)
                return messages.map(\.text) == texts
                    && messages.map(\.record.position) == Array(1...texts.count)
                    && messages.allSatisfy { $0.phase == .complete }
            }
            #expect(try await client.refresh(.balance).available == available)
        }

        @Test func `the log reports that a copied database was recognized at the start`()
            async throws
        {
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

        @Test func `a device reads from the start after its epoch is renewed`() async throws {
            try await TemporaryFolder.with { data in
                let renew = { @Sendable in
                    try await Tool.with(["epoch", "renew", "--json", "--data", data.path]) {
                        try await $0.ended()
                    }
                }
                let none = try await renew()
                #expect(none.status == 1 && none.output.isEmpty)
                let device = "a-device-of-a-machine"
                let before = try await ServeProcess.with(data: data) { server in
                    let guest = try await server.api.guest(device)
                    let busy = try await renew()
                    #expect(busy.status == 1 && busy.errors.contains("is in use"), "\(busy.errors)")
                    let pull = try await server.api.send(
                        .GET,
                        "/v1/sync/pull?since=0",
                        token: guest.token
                    )
                    #expect(try await server.stop().status == 0)
                    return try pull.decode(PullAnswer.self)
                }
                let renewed = try await renew()
                #expect(renewed.status == 0, "\(renewed.errors)")
                let output = Data(renewed.output.utf8)
                let report = try JSONDecoder().decode(JSONValue.self, from: output)
                try await ServeProcess.with(data: data) { server in
                    let guest = try await server.api.guest(device)
                    let epoch = try #require(before.epoch)
                    let pull = try await server.api.send(
                        .GET,
                        "/v1/sync/pull?since=\(before.next)&epoch=\(epoch)",
                        token: guest.token
                    )
                    let answer = try pull.decode(PullAnswer.self)
                    #expect(answer.reset && answer.epoch != epoch)
                    #expect(report["epoch"]?.string == answer.epoch?.description)
                    #expect(report["folder"]?.string == data.standardizedFileURL.path)
                    let ended = try await server.stop()
                    #expect(ended.status == 0 && !ended.errors.contains("a new epoch"))
                }
            }
        }

        /// Returns the newest number of the account's feed.
        private static func head(_ guest: API.Guest, _ api: API) async throws -> Int64 {
            let pull = try await api.send(.GET, "/v1/sync/pull?since=0", token: guest.token)
            return try pull.decode(PullAnswer.self).head
        }

        /// Returns the ids of the notes that the device shows after the body; `pulls` receives for
        /// each pull whether its answer was a reset.
        @discardableResult
        private static func notes(
            _ device: URL,
            _ server: LocalServer,
            _ pulls: WatchedState<[Bool]> = WatchedState([]),
            _ body: (SanguineClient, API.Guest) async throws -> Void
        ) async throws -> Set<String> {
            var configuration = SanguineClient.Configuration.of(port: server.port, folder: device)
            configuration.interceptors.append { request, next in
                let response = try await next(request)
                if request.url.path() == "/v1/sync/pull",
                    let answer = try? WireCoding.decode(PullAnswer.self, from: response)
                {
                    pulls.withLock { $0.append(answer.reset) }
                }
                return response
            }
            let client = try SanguineClient(configuration)
            defer { client.close() }
            try await client.synchronize()
            try await body(client, try await server.api.guest(of: device))
            return Set(client.records(Note.self).map(\.id.text))
        }

        /// Creates notes as another device of the account.
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
