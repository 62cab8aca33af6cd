import Foundation
import Logging
import SanguineSQLite
import SanguineServer
import TestSupport
import Testing

/// The samples of the server's guide.
@Suite("Server snippets", .bounded)
struct ServerSnippets {
    // Compiled and not run: it would serve until it is told to stop.
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
