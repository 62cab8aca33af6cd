package import Foundation

/// A notebook, as the backend stores and sends it.
package struct StoredNotebook: Encodable, Sendable {
    package let id: String
    package fileprivate(set) var title: String
    package fileprivate(set) var noteCount = 0
    fileprivate let number: Int

    private enum CodingKeys: String, CodingKey {
        case id, title, noteCount
    }
}

/// A note, as the backend stores and sends it; each change increments its version.
package struct StoredNote: Encodable, Sendable {
    package let id: String
    package let notebookId: String
    package fileprivate(set) var title: String
    package fileprivate(set) var text: String
    package fileprivate(set) var version = 1
    package fileprivate(set) var updatedAt: Date
    fileprivate let number: Int

    private enum CodingKeys: String, CodingKey {
        case id, notebookId, title, text, version, updatedAt
    }
}

/// The data of one user and its rules, independent of the network.
package struct Shelf: Sendable {
    /// The maximum number of a user's notebooks.
    static let notebookLimit = 1_000
    /// The maximum number of a user's notes.
    static let noteLimit = 10_000
    /// The maximum number of characters in a title, which has at least 1.
    static let titleLength = 100
    /// The maximum number of characters in a text.
    static let textLength = 10_000

    // Newest first.
    package private(set) var notebooks: [StoredNotebook] = []
    package private(set) var notes: [StoredNote] = []
    private var lastNumber = 0

    // MARK: - Notebooks

    /// Creates a notebook; titles are unique.
    package mutating func addNotebook(_ title: String) throws -> StoredNotebook {
        try check(title)
        guard !notebooks.contains(where: { $0.title == title }) else {
            throw Refusal(409, "title_taken", "A notebook '\(title)' already exists.")
        }
        guard notebooks.count < Self.notebookLimit else {
            throw Refusal(409, "too_many", "Delete a notebook first.")
        }
        lastNumber += 1
        let made = StoredNotebook(id: "b\(lastNumber)", title: title, number: lastNumber)
        notebooks.insert(made, at: 0)
        return made
    }

    package mutating func renameNotebook(_ id: String, _ title: String) throws -> StoredNotebook {
        let place = try place(ofNotebook: id)
        try check(title)
        guard !notebooks.contains(where: { $0.title == title && $0.id != id }) else {
            throw Refusal(409, "title_taken", "A notebook '\(title)' already exists.")
        }
        notebooks[place].title = title
        return notebooks[place]
    }

    /// Deletes a notebook and its notes.
    package mutating func deleteNotebook(_ id: String) throws {
        notebooks.remove(at: try place(ofNotebook: id))
        notes.removeAll { $0.notebookId == id }
    }

    // MARK: - Notes

    package mutating func addNote(
        to notebook: String,
        _ title: String,
        _ text: String,
        at now: Date
    ) throws -> StoredNote {
        let place = try place(ofNotebook: notebook)
        try check(title)
        try check(text: text)
        guard notes.count < Self.noteLimit else {
            throw Refusal(409, "too_many", "Delete a note first.")
        }
        lastNumber += 1
        let made = StoredNote(
            id: "n\(lastNumber)",
            notebookId: notebook,
            title: title,
            text: text,
            updatedAt: now,
            number: lastNumber
        )
        notes.insert(made, at: 0)
        notebooks[place].noteCount += 1
        return made
    }

    package func note(_ id: String) throws -> StoredNote { notes[try place(ofNote: id)] }

    /// Changes the members that are not `nil`.
    package mutating func editNote(
        _ id: String,
        title: String? = nil,
        text: String? = nil,
        at now: Date
    ) throws -> StoredNote {
        let place = try place(ofNote: id)
        if let title { try check(title) }
        if let text { try check(text: text) }
        notes[place].title = title ?? notes[place].title
        notes[place].text = text ?? notes[place].text
        notes[place].version += 1
        notes[place].updatedAt = now
        return notes[place]
    }

    package mutating func deleteNote(_ id: String) throws {
        let gone = notes.remove(at: try place(ofNote: id))
        if let place = notebooks.firstIndex(where: { $0.id == gone.notebookId }) {
            notebooks[place].noteCount -= 1
        }
    }

    // MARK: - Pages

    func notebookPage(after cursor: String?, limit: Int) throws -> ([StoredNotebook], String?) {
        try page(notebooks, \.number, after: cursor, limit: limit)
    }

    func notePage(
        of notebook: String,
        after cursor: String?,
        limit: Int
    ) throws -> ([StoredNote], String?) {
        _ = try place(ofNotebook: notebook)
        let rows = notes.filter { $0.notebookId == notebook }
        return try page(rows, \.number, after: cursor, limit: limit)
    }

    /// Returns a page; its cursor is the last row's number, so that other changes skip no rows.
    private func page<Row>(
        _ rows: [Row],
        _ number: KeyPath<Row, Int>,
        after cursor: String?,
        limit: Int
    ) throws -> (rows: [Row], next: String?) {
        guard let last = cursor.map({ Int($0) }) ?? .max else {
            throw Refusal(400, "bad_cursor", "Use a cursor from a response.")
        }
        let rest = rows.filter { $0[keyPath: number] < last }
        let page = Array(rest.prefix(limit))
        let next = page.count < rest.count ? page.last.map { "\($0[keyPath: number])" } : nil
        return (page, next)
    }

    // MARK: - Checks

    private func place(ofNotebook id: String) throws -> Int {
        guard let place = notebooks.firstIndex(where: { $0.id == id }) else {
            throw Refusal(404, "not_found", "There is no notebook '\(id)'.")
        }
        return place
    }

    private func place(ofNote id: String) throws -> Int {
        guard let place = notes.firstIndex(where: { $0.id == id }) else {
            throw Refusal(404, "not_found", "There is no note '\(id)'.")
        }
        return place
    }

    private func check(_ title: String) throws {
        guard (1...Self.titleLength).contains(title.count) else {
            throw Refusal(422, "bad_title", "A title has 1 to \(Self.titleLength) characters.")
        }
    }

    private func check(text: String) throws {
        guard text.count <= Self.textLength else {
            throw Refusal(422, "bad_text", "A text has up to \(Self.textLength) characters.")
        }
    }
}
