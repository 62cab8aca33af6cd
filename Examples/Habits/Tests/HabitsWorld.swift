import Foundation
import HabitsApp
import HabitsModel
import HabitsServer
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport

/// The real server, and devices of one user.
struct HabitsWorld: Sendable {
    /// The types of a server that refuses to consolidate logs.
    static let refusingTypes =
        habitTypes.filter { $0 != ConsolidateLogs.self } + [RefusedConsolidation.self]

    private struct RefusedConsolidation: RecordMutation {
        static let name = ConsolidateLogs.name

        func apply(to records: inout Records) throws {
            throw Refusal(.invalidContent, "Consolidate the logs of another day.")
        }
    }

    let root: URL
    private let server: URL

    /// Runs a server while the body runs.
    ///
    /// - Parameters:
    ///   - types: The server's registered types, by default those of the app.
    ///   - body: Uses the server.
    /// - Throws: The errors of storage, settings and `body`.
    static func with(
        registering types: [any Registrable.Type] = habitTypes,
        _ body: @escaping @Sendable (HabitsWorld) async throws -> Void
    ) async throws {
        try await TemporaryFolder.with { root in
            var settings = ServerSettings()
            settings.http.port = 0
            try await HabitsServer.with(
                folder: root.appending(path: "server"),
                settings: settings,
                registering: types
            ) { server in
                try await server.serve { addresses in
                    try await body(HabitsWorld(root: root, server: addresses.http))
                }
            }
        }
    }

    func folder(_ name: String) -> URL { root.appending(path: name) }

    /// Returns the app's client on a device.
    ///
    /// Every device belongs to the same user.
    func client(
        _ name: String = "phone",
        _ configure: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.habits(
            server: server,
            folder: folder(name)
        )
        configure(&configuration)
        let first = DeviceIdentityFile(in: folder("phone"))
        if name != "phone", first.exists { try first.copy(to: folder(name)) }
        return try SanguineClient(configuration)
    }
}

extension SanguineClient {
    /// Waits until the server's records include all local changes and no request is running.
    func settle() async throws {
        try await eventually("all to be sent and settled") { [self] in
            outbox.summary.unsent + outbox.summary.settling == 0
        }
        try await waitUntilIdle()
    }
}
