import Foundation
import NotebookBackend
import Sanguine

@main
struct Story {
    /// Plays a day of two users, with a backend in this process.
    static func main() async throws {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let server = NotebookServer { port.yield($0) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            group.addTask {
                for await port in ports {
                    guard let url = URL(string: "http://127.0.0.1:\(port)") else { continue }
                    return try await play(url, server) { print($0) }
                }
            }
            // The end of the story, or of a server that cannot listen.
            try await group.next()
            group.cancelAll()
        }
    }

    @MainActor
    static func play(
        _ url: URL,
        _ server: NotebookServer,
        _ print: @escaping (String) -> Void
    ) async throws {
        let name = "notebook-\(UUID().uuidString)"
        let folder = FileManager.default.temporaryDirectory.appending(path: name)
        defer { try? FileManager.default.removeItem(at: folder) }
        let network = Network()
        defer { network.close() }
        let tokens = Tokens(api: url)
        var configuration = SanguineClient.Configuration()
        configuration.setUp(url, tokens)
        configuration.folder = folder
        configuration.transport = network
        configuration.connectivity = network
        let client = try SanguineClient(configuration)
        defer { client.close() }
        let account = Account(client: client, tokens: tokens)
        let screen = Screen(client, print)

        try await write(client, account, screen, network, server)
        try await leave(client, account, screen, network)
    }

    /// Reads, offline writes, and a refusal.
    @MainActor
    private static func write(
        _ client: SanguineClient,
        _ account: Account,
        _ screen: Screen,
        _ network: Network,
        _ server: NotebookServer
    ) async throws {
        try server.change("ada") { shelf in
            let ideas = try shelf.addNotebook("Ideas")
            _ = try shelf.addNote(to: ideas.id, "Engine", "Weaves numbers.", at: .distantPast)
        }
        try await account.signIn("ada", "engine")
        try await screen.open("Ideas")
        screen.show("Ada reads")

        network.isOnline.set(false)
        try writeOffline(client, screen)
        screen.show("Ada writes on the train")

        network.isOnline.set(true)
        await client.allIsAnswered()
        screen.show("The train has left the tunnel")

        try server.change("ada") { _ = try $0.addNotebook("Letters") }
        if let notebook = screen.notebook {
            try client.perform(RenameNotebook(id: notebook.id, title: "Letters"))
            screen.show("Ada chooses a title that her other device has used")
            await client.allIsAnswered()
            screen.show("The backend refuses")
            for refused in client.outbox.refused { try client.outbox.discard(refused.id) }
            try await client.refresh(.notebooks)
            screen.show("Ada has seen it")
        }
    }

    /// A sign-out with a waiting operation, another user, and the return of the first.
    @MainActor
    private static func leave(
        _ client: SanguineClient,
        _ account: Account,
        _ screen: Screen,
        _ network: Network
    ) async throws {
        network.isOnline.set(false)
        try client.perform(AddNotebook(id: UUID().uuidString, title: "Poems"))
        await account.signOut()
        screen.show("Ada signs out while a notebook waits to be sent")
        network.isOnline.set(true)
        try await account.signIn("bob", "kite")
        try await client.refresh(.notebooks)
        screen.show("Bob sees none of Ada's notebooks")
        try await account.signIn("ada", "engine")
        await client.allIsAnswered()
        try await client.refresh(.notebooks)
        screen.show("Ada is back")
    }

    @MainActor
    private static func writeOffline(_ client: SanguineClient, _ screen: Screen) throws {
        guard let notebook = screen.notebook, let first = screen.notes.first else { return }
        let draft = Note(
            id: UUID().uuidString,
            notebookId: notebook.id,
            title: "Loom",
            text: "Punched cards!",
            updatedAt: first.updatedAt
        )
        try client.perform(AddNote(note: draft))
        for text in ["Weaves", "Weaves algebra."] {
            try client.perform(EditNote(id: first.id, notebook: notebook.id, text: text))
        }
    }
}

extension SanguineClient {
    /// Returns when the backend has applied or refused all operations.
    func allIsAnswered() async {
        for await summary in outbox.updates where summary.unsent + summary.settling == 0 { return }
    }
}
