import Foundation
import HabitsApp
import HabitsModel
import HabitsServer
import Logging
import Sanguine
import SanguineServer
import SanguineTesting
import ServiceLifecycle

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
    private let port: Int

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
        let root = FileManager.default.temporaryDirectory.appending(path: "habits-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let port = WatchedState<Int?>(nil)
        var settings = ServerSettings()
        (settings.http.port, settings.http.adminPort) = (0, 0)
        try await HabitsServer.with(
            folder: root.appending(path: "server"),
            settings: settings,
            registering: types,
            onListening: { ports in port.withLock { $0 = ports.http } }
        ) { server in
            let group = ServiceGroup(services: [server], logger: .init(label: "habits.tests"))
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                let found = try await port.first("the server's port", within: .seconds(20)) { $0 }
                let world = HabitsWorld(root: root, port: found)
                let result: Result<Void, any Error>
                do { result = .success(try await body(world)) } catch { result = .failure(error) }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try result.get()
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
        let server = URL(string: "http://127.0.0.1:\(port)")
        var configuration = SanguineClient.Configuration.habits(
            server: server,
            folder: folder(name)
        )
        configure(&configuration)
        try join(name)
        return try SanguineClient(configuration)
    }

    /// Another device copies the identity of the first one, as a synchronized keychain does.
    private func join(_ name: String) throws {
        let file = "device-identity.json"
        let first = folder("phone").appending(path: file)
        let files = FileManager.default
        guard name != "phone", files.fileExists(atPath: first.path),
            !files.fileExists(atPath: folder(name).appending(path: file).path)
        else { return }
        try files.createDirectory(at: folder(name), withIntermediateDirectories: true)
        try files.copyItem(at: first, to: folder(name).appending(path: file))
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
