import Sanguine

/// The terminal's user interface: the user's notebooks, the notes of the open one, and the outbox.
///
/// All state is in the client's own models; there are no view models.
@MainActor
final class Screen {
    private let client: SanguineClient
    private let print: (String) -> Void
    private let notebooks: ListModel<Notebook>
    private let outbox: OutboxModel
    private var open: ListModel<Note>?
    private var openID: String?

    init(_ client: SanguineClient, _ print: @escaping (String) -> Void) {
        self.client = client
        self.print = print
        notebooks = client.model(.notebooks)
        outbox = client.outbox.model
    }

    /// The open notebook.
    var notebook: Notebook? { notebooks.items.first { $0.id == openID } }
    /// Its loaded notes.
    var notes: [Note] { open?.items ?? [] }

    /// Opens the notebook with the title.
    func open(_ title: String) async throws {
        let found = try await client.value(of: .notebooks).first { $0.title == title }
        guard let found else { return }
        openID = found.id
        let notes = client.model(of: found.id) { .notes(of: $0) }
        await notes.refresh()
        open = notes
    }

    /// Prints what a view would show at this moment.
    func show(_ title: String) {
        print("\n== \(title)")
        for notebook in notebooks.items {
            print("   \(notebook.title) (\(notebook.noteCount))")
            guard notebook.id == openID else { continue }
            for note in notes { print("     \(note.title): \(note.text)") }
        }
        if !outbox.isAllSent { print("   … \(outbox.summary.unsent) to be sent") }
        for refused in outbox.refused {
            print("   ! \(refused.name): \(refused.problem.detail)")
        }
    }
}
