import Foundation
import NotebookBackend
import Sanguine
import SanguineTesting
import Testing

@testable import Notebook

/// The backend on loopback, and a device whose network a test can hold or disconnect.
struct World: Sendable {
    static let day = Date(timeIntervalSince1970: 1_800_000_000)

    let url: URL
    let server: NotebookServer
    let network: ScriptedTransport
    let tokens: Tokens
    let device: TestDevice
    /// Whether the network is available.
    private let isOpen: Signal<Bool>

    /// Runs the backend while the body runs.
    static func with(
        requestsPerToken: Int = 1_000,
        _ body: @Sendable (World) async throws -> Void
    ) async throws {
        let port = WatchedState<Int?>(nil)
        let server = NotebookServer(requestsPerToken: requestsPerToken, now: { day }) { number in
            port.withLock { $0 = number }
        }
        let running = Task { try await server.run() }
        defer { running.cancel() }
        try await port.wait(for: "the backend's port") { $0 != nil }
        let url = try #require(URL(string: "http://127.0.0.1:\(port.value ?? 0)"))
        let wire = URLSessionTransport()
        defer { wire.close() }
        let isOpen = Signal(true)
        let network = ScriptedTransport { request in
            guard isOpen.value else { return .fail(.offline("the test went offline")) }
            do throws(TransportError) {
                return .respond(try await wire.send(request))
            } catch {
                return .fail(error)
            }
        }
        let tokens = Tokens(api: url)
        let device = TestDevice(network: network) { configuration in
            configuration.server = nil  // Devices have a server by default.
            configuration.setUp(url, tokens)
        }
        defer { device.quit() }
        try await body(
            World(
                url: url,
                server: server,
                network: network,
                tokens: tokens,
                device: device,
                isOpen: isOpen
            )
        )
    }

    /// Launches the app and signs a user in.
    func launch(_ user: String = "ada") async throws -> SanguineClient {
        let client = try device.launch()
        try await signIn(user)
        return client
    }

    func signIn(_ user: String) async throws {
        let client = try #require(device.client)
        let passwords = ["ada": "engine", "bob": "kite"]
        try await Account(client: client, tokens: tokens).signIn(user, passwords[user] ?? "")
    }

    func signOut() async throws {
        await Account(client: try #require(device.client), tokens: tokens).signOut()
    }

    func goOffline() {
        isOpen.set(false)
        device.connectivity.disconnect()
    }

    func goOnline() {
        isOpen.set(true)
        device.connectivity.connect()
    }

    /// Adds a notebook with the given number of notes, like another device of Ada.
    func notebook(_ title: String, notes: Int = 0) throws -> StoredNotebook {
        try server.change("ada") { shelf in
            let notebook = try shelf.addNotebook(title)
            for number in 0..<notes {
                _ = try shelf.addNote(to: notebook.id, "Note \(number)", "", at: Self.day)
            }
            return notebook
        }
    }
}

/// Returns a note that Ada writes on this device.
func draft(_ title: String, in notebook: String) -> Note {
    Note(
        id: UUID().uuidString,
        notebookId: notebook,
        title: title,
        text: "",
        updatedAt: World.day
    )
}
