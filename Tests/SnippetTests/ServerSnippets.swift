import Foundation
import Logging
import Sanguine
import SanguineSQLite
import SanguineServer
import TestSupport
import Testing

/// The samples of the server's guide.
@Suite("Server snippets", .bounded)
struct ServerSnippets {
    struct Translate: FunctionCall {
        struct Input: Codable, Sendable { var text: String, to: String }
        typealias Output = String
        static let name = "translate"
        static let rules = FunctionRules(price: .fixed(2), cache: .forever, streams: true)
        let input: Input
    }

    struct WordCount: FunctionCall {
        struct Input: Codable, Sendable { var text: String }
        typealias Output = Int
        static let name = "words"
        static let rules = FunctionRules(price: .free)
        let input: Input
    }

    // Compiled but not run: the storage would stay open.
    func open(_ folder: URL, _ settings: ServerSettings) throws -> SQLiteStorage {
        var options = SQLiteStorageOptions()
        options.storesFilesElsewhere = settings.blobs.areInBucket
        let storage = try SQLiteStorage(folder: folder, options: options)
        return storage
    }

    // Compiled but not run: it would serve until it receives a signal.
    func serve(_ folder: URL, _ settings: ServerSettings, _ logger: Logger) async throws {
        let storage = try SQLiteStorage(folder: folder)
        let server = try await SanguineServer(
            storage: storage,
            keys: try KeyFile.loadOrCreate(in: folder),
            adminToken: try AdminToken.loadOrCreate(in: folder),
            settings: settings,
            logger: logger
        )
        try await server.serve()  // until SIGTERM or SIGINT
        await storage.close()
    }

    @Test func `a test runs a server of its own`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }

        var settings = ServerSettings()
        settings.http.port = 0
        let balance = try await SQLiteStorage.with(folder: folder) { storage in
            let server = try await SanguineServer(
                storage: storage,
                keys: try KeyFile.loadOrCreate(in: folder),
                settings: settings
            )
            return try await server.serve { addresses in
                let client = try SanguineClient(.inMemory(server: addresses.http))
                defer { client.close() }
                return try await client.value(of: .balance)
            }
        }
        #expect(balance.available == 100)
    }

    @Test func `functions are declared once and answered by code or a prompt`() {
        let translate = ServerFunction(asking: Translate.self) {
            "Translate into \($0.to): \($0.text)"
        }
        let functions = [
            ServerFunction(asking: Translate.self) { "Translate into \($0.to): \($0.text)" },
            ServerFunction(WordCount.self) { call in call.input.text.split(separator: " ").count },
        ]

        #expect(translate.name == "translate")
        #expect(functions.map(\.name) == ["translate", "words"])
        #expect(functions[0].rules.price == .fixed(2))
    }

    struct Translation: SyncedRecord {
        static let collection = RecordCollection("translations")
        let id: RecordID
        var text: String
    }

    struct SaveTranslation: RecordMutation {
        static let name = "translation.save"
        let id: RecordID
        let text: String

        func apply(to records: inout Records) throws {
            records.set(Translation(id: id, text: text))
        }
    }

    @Test func `a function changes records with its answer`() {
        let translate = ServerFunction(asking: Translate.self) {
            "Translate into \($0.to): \($0.text)"
        }
        .recording(Translate.self) { call in
            [SaveTranslation(id: try RecordID(derivedFrom: call.key), text: call.output)]
        }
        #expect(translate.name == "translate")
    }

    @Test func `settings are set in code and checked`() throws {
        var settings = ServerSettings()
        settings.http.port = 8_081
        settings.accounts.grant = 20
        settings.quotas = [QuotaSetting(name: "readings", perDay: 5)]
        try settings.validate()

        #expect(settings.http.effectiveAdminPort == 8_082)
        #expect(settings.quotas.map(\.name) == ["readings"])
    }
}
