import Foundation
import Sanguine

struct Notebook: Codable, Sendable, Equatable, Identifiable {
    let id: String
    var title: String
    var noteCount = 0
}

struct Note: Codable, Sendable, Equatable, Identifiable {
    let id: String
    let notebookId: String
    var title: String
    var text: String
    var version = 0
    var updatedAt: Date
}

extension ListQuery where Item == Notebook {
    /// The user's notebooks, newest first.
    static let notebooks = ListQuery(
        "notebooks",
        policy: .fresh(for: .minutes(1)).stored(.onDisk)
    ) { request, page in
        let answer: NotebookPage = try await request.get("notebooks", query: page.query)
        let next = answer.nextCursor
        return ListPage(items: answer.notebooks, hasMore: next != nil, nextCursor: next)
    }
}

extension ListQuery where Item == Note {
    /// The notes of a notebook, newest first.
    static func notes(of notebook: String) -> Self {
        ListQuery(
            "notes",
            notebook,
            policy: .fresh(for: .seconds(30)).stored(.onDisk),
            size: 20
        ) { request, page in
            let path = "notebooks/\(notebook)/notes"
            let answer: NotePage = try await request.get(path, query: page.query)
            let next = answer.nextCursor
            return ListPage(items: answer.notes, hasMore: next != nil, nextCursor: next)
        }
    }
}

extension ValueQuery where Value == Note {
    /// The note that is open on the screen.
    static func note(_ id: String) -> Self {
        ValueQuery("note", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("notes/\(id)")
        }
    }
}

private struct NotebookPage: Decodable {
    let notebooks: [Notebook]
    let nextCursor: String?
}

private struct NotePage: Decodable {
    let notes: [Note]
    let nextCursor: String?
}
