import AsyncHTTPClient
import Foundation
import GRDB
import NIOCore
import NIOHTTP1
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport

/// The folders of an earlier version: `data` of its server and `client` of its client.
///
/// They are in `Resources/old-folders.tar.gz`. ``make(in:)`` created them with the version from
/// which the current one must be able to upgrade. To create them again, check that version out and
/// run `MAKE_OLD_FOLDERS=1 swift test --filter OldFolderTests`. All keys in them are for tests.
struct OldFolders: Sendable {
    /// Facts about the content that the tests need.
    struct Facts: Codable, Sendable {
        /// The time at which the folders were created.
        var madeAt: Timestamp
        /// The account of the data folder, and an unused refresh token of it.
        var account: Identifier
        var refreshToken: String
        /// An open hold of 5 tokens.
        var hold: Identifier
        /// The answer of `daily`, which is cached until the account's midnight.
        var thought: String
        /// The id of the account's file.
        var blob: String
        /// The account of the client folder.
        var clientAccount: Identifier
        /// The client's records.
        var settled: RecordID
        var added: RecordID
    }

    static let archive = "old-folders.tar.gz"
    static let device = "a-device-of-an-old-version"

    let folder: URL
    let facts: Facts
    var data: URL { folder.appending(path: "data", directoryHint: .isDirectory) }
    var client: URL { folder.appending(path: "client", directoryHint: .isDirectory) }
    /// A clock that shows five minutes after the folders were created.
    var clock: ManualWallClock { ManualWallClock(facts.madeAt + .seconds(300)) }

    /// Runs the body with a copy of the folders.
    static func with(_ body: @Sendable (OldFolders) async throws -> Void) async throws {
        guard let archive = Bundle.module.url(forResource: archive, withExtension: nil) else {
            throw Unexpected("The resource '\(archive)' is missing.")
        }
        try await TemporaryFolder.with { folder in
            try await tar("-xzf", archive.path, "-C", folder.path)
            let facts = try Data(contentsOf: folder.appending(path: "facts.json"))
            let old = OldFolders(
                folder: folder,
                facts: try JSONDecoder().decode(Facts.self, from: facts)
            )
            for part in [old.data, old.client] {
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o700],
                    ofItemAtPath: part.path
                )
            }
            try await body(old)
        }
    }

    private static func tar(_ arguments: String...) async throws {
        let ended = try await Tool.with(
            arguments,
            shell: "shift; exec tar \"$@\""
        ) { try await $0.ended() }
        guard ended.status == 0 else { throw Unexpected("tar failed: \(ended.errors)") }
    }
}

// MARK: - The app of the client folder

/// A mutation of an HTTP backend, for which a spend stands in.
struct BuyTea: RemoteMutation {
    static let name = "tea.buy"
    let cups: Int64

    func effects(on view: inout MutationEffects) {
        view.update(.greeting) { $0 += " and tea" }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("/v1/spend", SpendRequest(amount: cups, reason: "tea"))
    }
}

/// A note of the collection that every server has.
struct OldNote: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var text: String
}

/// A row of a list that is stored on disk.
struct OldRow: Codable, Sendable, Equatable, Identifiable {
    var id: String
    var title: String
}

extension ValueQuery where Value == String {
    static var greeting: Self {
        ValueQuery("greeting", policy: .fresh(for: .hours(1)).stored(.onDisk)) { _ in "Hello" }
    }
}

extension ListQuery where Item == OldRow {
    static var oldRows: Self {
        ListQuery("old.rows", policy: .fresh(for: .hours(1)).stored(.onDisk)) { _, _ in
            let items = (1...3).map { OldRow(id: "\($0)", title: "Row \($0)") }
            return ListPage(items: items, hasMore: false)
        }
    }
}

extension OldFolders {
    /// Returns a client of the folder.
    ///
    /// Nothing listens at port 1.
    static func client(
        _ folder: URL,
        port: Int = 1,
        clock: any WallClock = SystemWallClock()
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.of(
            port: port,
            folder: folder,
            clock: clock
        )
        configuration.register(OldNote.self, BuyTea.self)
        return try SanguineClient(configuration)
    }

    static func key(_ id: RecordID) -> RecordKey { RecordKey("notes", id) }
}

// MARK: - Creation

extension OldFolders {
    /// Creates the folders and the archive with the current version.
    static func make(in folder: URL) async throws {
        let data = folder.appending(path: "data")
        let client = folder.appending(path: "client")
        let facts = try await Tool.with(["stand-in", "--port", "0"]) { standIn in
            let upstream = "http://127.0.0.1:\(try await standIn.listeningPort())"
            return try await ServeProcess.with(
                data: data,
                arguments: ["--upstream", upstream]
            ) { server in
                var facts = try await use(server.api)
                try await use(client, server, &facts)
                guard try await server.stop().status == 0 else {
                    throw Unexpected("The server failed.")
                }
                return facts
            }
        }
        try checkpoint(folder)
        try JSONEncoder().encode(facts).write(to: folder.appending(path: "facts.json"))
        try await tar("-czf", madeArchive.path, "-C", folder.path, "data", "client", "facts.json")
    }

    /// The archive in the sources.
    private static var madeArchive: URL {
        URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../Resources/\(archive)")
    }

    /// The size of the archive in the sources.
    static var archiveBytes: Int { get throws { try Data(contentsOf: madeArchive).count } }

    /// Creates rows of every kind in the server's folder.
    private static func use(_ api: API) async throws -> Facts {
        let guest = try await api.guest(device)
        let token = guest.token
        let operations = ["Milk", "Bread"].enumerated().map { number, text in
            pushed(Int64(number) + 1, "notes", ["text": .string(text)])
        }
        let posts = ["First", "Second"].enumerated().map { number, text in
            pushed(Int64(number) + 3, "posts", ["text": .string(text)])
        }
        let push = PushRequest(device: device, operations: operations + posts)
        try expect(200, try await api.send(.POST, "/v1/sync/push", token: token, json: push))
        try expect(200, try await api.spend(4, "tea", key: "old-spend", as: guest))
        try expect(200, try await api.echo("Hello", key: "old-call", as: guest))
        let hold = try await api.send(
            .POST,
            "/v1/holds",
            token: token,
            key: "old-hold",
            json: ["amount": 5]
        )
        try expect(201, hold)
        let consumed = try await api.send(
            .POST,
            "/v1/quotas/readings/consume",
            token: token,
            key: "old-reading",
            json: ["amount": 1]
        )
        try expect(200, consumed)
        let daily = try await api.daily("old-thought", as: guest)
        let blob = try await api.upload(SampleFile.jpeg.bytes(), as: guest)
        let refreshed = try await api.refresh(guest.session.refreshToken)
        try expect(200, refreshed)
        return Facts(
            madeAt: SystemWallClock().now(),
            account: guest.account,
            refreshToken: try refreshed.decode(Refreshed.self).session.refreshToken,
            hold: try hold.decode(HoldAnswer.self).hold.id,
            thought: try daily.decode(JSONValue.self)["output"]?.string ?? "",
            blob: try blob.decode(JSONValue.self)["id"]?.string ?? "",
            clientAccount: guest.account,
            settled: RecordID(guest.account),
            added: RecordID(guest.account)
        )
    }

    /// Creates values, records and operations of all kinds in the client's folder.
    private static func use(
        _ folder: URL,
        _ server: ServeProcess,
        _ facts: inout Facts
    ) async throws {
        func id() -> RecordID { RecordID(Identifier(at: SystemWallClock().now())) }
        let (settled, deleted, added) = (id(), id(), id())
        try await withClient(folder, server.port) { client in
            _ = try await client.value(of: .balance)
            _ = try await client.value(of: .quotas)
            _ = try await client.value(of: .account)
            _ = try await client.value(of: .greeting)
            _ = try await client.value(of: .oldRows)
            try client.perform(CreateRecord(key(settled), ["text": "Milk"]))
            try client.perform(CreateRecord(key(deleted), ["text": "Bread"]))
            try await client.synchronize()
        }
        let guest = try await server.api.guest(of: folder)
        let delete = PushedOperation(
            id: Identifier(at: SystemWallClock().now()),
            sequence: 1,
            lane: "a",
            mutator: DeleteRecord.name,
            arguments: try JSONValue(encoding: DeleteRecord(key(deleted)))
        )
        let push = PushRequest(device: device, operations: [delete])
        let token = guest.token
        try expect(200, try await server.api.send(.POST, "/v1/sync/push", token: token, json: push))
        try await withClient(folder, 1) { client in
            try client.perform(SetFields(key(deleted), ["text": "Rye bread"]))
        }
        try await withClient(folder, server.port) { client in
            try await client.synchronize()
            guard client.outbox.summary.refused == 1 else {
                throw Unexpected("Nothing was refused.")
            }
        }
        try await withClient(folder, 1) { client in
            try client.perform(SetFields(key(settled), ["text": "Oat milk"]))
            try client.perform(CreateRecord(key(added), ["text": "Tea"]))
            try client.perform(BuyTea(cups: 2))
        }
        facts.clientAccount = guest.account
        facts.settled = settled
        facts.added = added
    }

    private static func withClient(
        _ folder: URL,
        _ port: Int,
        _ body: (SanguineClient) async throws -> Void
    ) async throws {
        let client = try client(folder, port: port)
        defer { client.close() }
        try await body(client)
    }

    private static func pushed(
        _ sequence: Int64,
        _ collection: String,
        _ fields: [String: JSONValue]
    ) -> PushedOperation {
        let moment = SystemWallClock().now() + .milliseconds(sequence)
        return PushedOperation(
            id: Identifier(at: moment),
            sequence: sequence,
            lane: "a",
            mutator: CreateRecord.name,
            arguments: [
                "collection": .string(collection),
                "id": .string("\(Identifier(at: moment))"),
                "fields": .object(fields.merging(["createdAt": .string("\(moment)")]) { $1 }),
            ]
        )
    }

    private static func expect(_ status: Int, _ answer: API.Answer) throws {
        guard answer.status == status else { throw Unexpected("\(answer.status) \(answer.text)") }
    }

    /// Moves the databases' write-ahead logs into the databases.
    private static func checkpoint(_ folder: URL) throws {
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        for case let file as URL in files ?? .init() where file.pathExtension == "sqlite" {
            let queue = try DatabaseQueue(path: file.path)
            try queue.writeWithoutTransaction { database in
                try database.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            }
            try queue.close()
        }
    }
}

extension API {
    func upload(_ bytes: [UInt8], as guest: Guest) async throws -> Answer {
        var request = HTTPClientRequest(url: base + "/v1/blobs")
        request.method = .POST
        request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
        request.headers.add(name: "Content-Type", value: "image/jpeg")
        request.body = .bytes(ByteBuffer(bytes: bytes))
        let response = try await http.execute(request, timeout: .patient(30))
        let body = try await response.body.collect(upTo: 1 << 20)
        return Answer(
            status: Int(response.status.code),
            headers: response.headers,
            body: Data(body.readableBytesView)
        )
    }

    func daily(_ key: String, as guest: Guest) async throws -> Answer {
        let json = ["input": [String: String]()]
        return try await send(
            .POST,
            "/v1/functions/daily",
            token: guest.token,
            key: key,
            json: json
        )
    }
}
