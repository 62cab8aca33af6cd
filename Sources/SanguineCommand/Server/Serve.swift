import ArgumentParser
import Foundation
import Logging
import Metrics
import SanguineSQLite
import SanguineServer

/// `sanguine serve`.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run the server: accounts, balances, quotas, records and metered functions.",
        discussion: """
            Prints 'listening on http://…' when it accepts requests. Stops on SIGTERM or SIGINT, \
            after requests in progress. 'sanguine config' lists all settings.
            """
    )

    @OptionGroup var data: DataOptions
    @OptionGroup var options: SettingsOptions

    @Flag(help: "Create new signing keys if they are missing, which signs everyone out.")
    var acceptNewKeys = false

    @Flag(help: "Start with an empty database if the old one is missing; its data is lost.")
    var acceptEmptyDatabase = false

    @Flag(help: "Accept writes although files are missing or altered; those files are lost.")
    var acceptLostFiles = false

    func run() async throws {
        let loaded = try await options.load()
        let folder = try data.usableFolder(writing: true)
        var settings = loaded.settings
        if settings.mail.smtpHost == nil, settings.mail.folder == nil {
            settings.mail.folder = folder.appending(path: "mail").path
        }
        let level = Logger.Level(rawValue: settings.log.level) ?? .info
        LoggingSystem.bootstrap { JSONLogHandler(label: $0, level: level) }
        let logger = Logger(label: "sanguine")
        for warning in loaded.warnings { logger.warning("\(warning)") }

        let registry = OpenMetricsRegistry()
        MetricsSystem.bootstrap(registry)
        let (storage, keys) = try await ServedData.open(
            folder,
            acceptsNewKeys: acceptNewKeys,
            acceptsEmptyDatabase: acceptEmptyDatabase,
            acceptsLostFiles: acceptLostFiles,
            storesFilesElsewhere: settings.blobs.areInBucket
        )
        for notice in storage.notices { logger.warning("\(notice)") }
        do {
            let server = try await SanguineServer(
                storage: storage,
                keys: keys,
                adminTokens: try AdminToken.loadOrCreateAll(in: folder, settings: settings),
                settings: settings,
                registry: registry,
                log: .standardError,
                logger: logger
            ) { [settings] ports in
                Output.announce("listening on \(settings.http.url(port: ports.http))")
            }
            try await server.serve()
        } catch {
            await storage.close()
            throw error
        }
        await storage.close()
    }
}
