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
    let root: URL
    let registry: OpenMetricsRegistry
    private let port: Int

    /// Runs a server for as long as the body takes.
    ///
    /// - Parameters:
    ///   - types: What the server knows. Default: all that the app has.
    ///   - body: Uses it.
    /// - Throws: What storage, settings and `body` throw.
    static func with(
        registering types: [any Registrable.Type] = habitTypes,
        _ body: @escaping @Sendable (HabitsWorld) async throws -> Void
    ) async throws {
        let root = FileManager.default.temporaryDirectory.appending(path: "habits-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let registry = OpenMetricsRegistry()
        let port = WatchedState<Int?>(nil)
        var settings = ServerSettings()
        (settings.http.port, settings.http.adminPort) = (0, 0)
        try await HabitsServer.with(
            folder: root.appending(path: "server"),
            settings: settings,
            registering: types,
            registry: registry,
            onListening: { ports in port.withLock { $0 = ports.http } }
        ) { server in
            let group = ServiceGroup(services: [server], logger: .init(label: "habits.tests"))
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                let found = try await port.first("the server's port", within: .seconds(20)) { $0 }
                let world = HabitsWorld(root: root, registry: registry, port: found)
                let result: Result<Void, any Error>
                do { result = .success(try await body(world)) } catch { result = .failure(error) }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
                try result.get()
            }
        }
    }

    func folder(_ name: String) -> URL { root.appending(path: name) }

    /// The app on a device; every device is the same user's.
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

    /// A second device takes the identity of the first one over, as by a keychain in the cloud.
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

    /// How many requests of a route the server has answered.
    func requests(_ method: String, _ route: String) -> Int {
        registry.render().split(separator: "\n").filter { line in
            line.hasPrefix("http_server_requests_total{")
                && line.contains("method=\"\(method)\"") && line.contains("route=\"\(route)\"")
        }
        .compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
    }

    /// How many requests for data there were, reads and writes.
    var dataRequests: Int {
        ["/v1/sync/pull", "/v1/records/{collection}", "/v1/records/{collection}/{id}"]
            .map { requests("GET", $0) }.reduce(0, +) + requests("POST", "/v1/sync/push")
    }
}
