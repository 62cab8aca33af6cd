import Foundation
import Sanguine

// The lane is the notebook: mutations in one notebook are sent in order, and notebooks do not wait
// for each other. A notebook or a note that the backend has not created has a temporary id.

struct AddNotebook: RemoteMutation {
    static let name = "notebook.add"
    let id: String
    let title: String
    var lane: String { id }

    func effects(on view: inout MutationEffects) {
        view.insert(Notebook(id: id, title: title), into: .notebooks)
    }

    func send(_ request: MutationContext) async throws {
        let made = try await request.post("notebooks", ["title": title], as: Notebook.self)
        request.replaceID(id, by: made.id)
        request.settle(.notebooks, row: made)
    }
}

struct RenameNotebook: RemoteMutation {
    static let name = "notebook.rename"
    let id: String
    let title: String
    var lane: String { id }

    func effects(on view: inout MutationEffects) {
        view.updateRows(of: .notebooks) { if $0.id == id { $0.title = title } }
    }

    func send(_ request: MutationContext) async throws {
        let body = ["title": title]
        let renamed = try await request.send("PATCH", "notebooks/\(id)", body, as: Notebook.self)
        request.settle(.notebooks, row: renamed)
    }
}

struct DeleteNotebook: RemoteMutation {
    static let name = "notebook.delete"
    let id: String
    var lane: String { id }

    func effects(on view: inout MutationEffects) { view.remove(id, from: .notebooks) }

    func send(_ request: MutationContext) async throws {
        try await request.send("DELETE", "notebooks/\(id)")
    }
}

struct AddNote: RemoteMutation {
    static let name = "note.add"
    let note: Note
    var lane: String { note.notebookId }

    func effects(on view: inout MutationEffects) {
        view.insert(note, into: .notes(of: note.notebookId))
        view.updateRows(of: .notebooks) { if $0.id == note.notebookId { $0.noteCount += 1 } }
    }

    func send(_ request: MutationContext) async throws {
        let made = try await request.post(
            "notebooks/\(note.notebookId)/notes",
            ["title": note.title, "text": note.text],
            as: Note.self
        )
        request.replaceID(note.id, by: made.id)
        request.settle(.notes(of: note.notebookId), row: made)
    }
}

struct EditNote: RemoteMutation, Superseding {
    static let name = "note.edit"
    let id: String
    let notebook: String
    let text: String
    var lane: String { notebook }

    func effects(on view: inout MutationEffects) {
        view.update(.note(id)) { $0.text = text }
        view.updateRows(of: .notes(of: notebook)) { if $0.id == id { $0.text = text } }
    }

    func send(_ request: MutationContext) async throws {
        let edited = try await request.send("PATCH", "notes/\(id)", ["text": text], as: Note.self)
        request.settle(.notes(of: notebook), row: edited)
        // Reads of the API may lag behind its writes; the version shows what a value includes.
        request.settle(.note(id)) { $0.version >= edited.version }
    }

    /// Only the last of several waiting edits is sent.
    func supersedes(_ earlier: any Mutation) -> Supersession? {
        (earlier as? EditNote)?.id == id ? .replaces : nil
    }
}

struct DeleteNote: RemoteMutation {
    static let name = "note.delete"
    let id: String
    let notebook: String
    var lane: String { notebook }

    func effects(on view: inout MutationEffects) {
        view.remove(id, from: .notes(of: notebook))
        view.updateRows(of: .notebooks) { if $0.id == notebook { $0.noteCount -= 1 } }
    }

    func send(_ request: MutationContext) async throws {
        try await request.send("DELETE", "notes/\(id)")
    }
}
