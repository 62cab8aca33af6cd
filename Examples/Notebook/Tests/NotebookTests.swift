import Foundation
import NotebookBackend
import Sanguine
import SanguineTesting
import TestSupport
import Testing

@testable import Notebook

/// A test for each feature, over loopback, against the real backend.
@Suite("Notebook", .bounded)
struct NotebookTests {
    @Test func `notebooks and notes are read`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas", notes: 1)
            let client = try await world.launch()
            let notebooks = try await client.value(of: .notebooks)
            let notes = try await client.value(of: .notes(of: ideas.id))

            #expect(notebooks == [Notebook(id: ideas.id, title: "Ideas", noteCount: 1)])
            #expect(notes.map(\.title) == ["Note 0"])
            #expect(notes.map(\.updatedAt) == [World.day])
        }
    }

    @Test func `data that was read is available at the next offline launch`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas", notes: 2)
            let first = try await world.launch()
            _ = try await first.value(of: .notebooks)
            _ = try await first.value(of: .notes(of: ideas.id))
            try await first.waitUntilIdle()
            world.goOffline()
            let client = try world.device.launch()

            #expect(client.userID == "ada")
            #expect(client.cached(.notebooks)?.map(\.title) == ["Ideas"])
            #expect(client.cached(.notes(of: ideas.id))?.map(\.title) == ["Note 1", "Note 0"])
        }
    }

    @Test func `a waiting edit survives a kill of the app and is sent once`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas", notes: 1)
            let first = try await world.launch()
            let note = try #require(try await first.value(of: .notes(of: ideas.id)).first)
            try await first.waitUntilIdle()
            world.goOffline()
            for text in ["Wea", "Weaves."] {
                try first.perform(EditNote(id: note.id, notebook: ideas.id, text: text))
            }
            try world.device.kill()
            let client = try world.device.launch()
            #expect(client.cached(.notes(of: ideas.id))?.map(\.text) == ["Weaves."])

            world.goOnline()
            try await client.waitUntilIdle()
            let stored = try world.server.change("ada") { try $0.note(note.id) }
            #expect(stored.text == "Weaves.")
            #expect(stored.version == 2)
            #expect(client.outbox.pending.isEmpty)
        }
    }

    @Test func `an open note shows an edit until its version is read`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas", notes: 1)
            let client = try await world.launch()
            let id = try #require(try await client.value(of: .notes(of: ideas.id)).first?.id)
            _ = try await client.value(of: .note(id))
            try client.perform(EditNote(id: id, notebook: ideas.id, text: "Weaves."))
            #expect(client.cached(.note(id))?.text == "Weaves.")
            #expect(client.cached(.note(id))?.version == 1)

            try await client.waitUntilIdle()
            #expect(client.cached(.note(id))?.text == "Weaves.")
            #expect(client.cached(.note(id))?.version == 2)
            #expect(client.outbox.pending.isEmpty)
        }
    }

    @Test func `a notebook and its first note are created offline with temporary ids`() async throws
    {
        try await World.with { world in
            let client = try await world.launch()
            #expect(try await client.value(of: .notebooks).isEmpty)
            world.goOffline()
            let temporary = UUID().uuidString
            try client.perform(AddNotebook(id: temporary, title: "Ideas"))
            try client.perform(AddNote(note: draft("Engine", in: temporary)))
            #expect(client.cached(.notebooks)?.map(\.noteCount) == [1])

            world.goOnline()
            try await client.waitUntilIdle()
            let notes = try world.server.change("ada") { $0.notes }
            let notebooks = try await client.refresh(.notebooks)
            #expect(notes.map(\.title) == ["Engine"])
            #expect(notebooks.map(\.id) == notes.map(\.notebookId))
            #expect(notebooks.map(\.noteCount) == [1])
        }
    }

    @Test func `a request with a lost answer is repeated without duplicates`() async throws {
        try await World.with { world in
            let client = try await world.launch()
            #expect(try await client.value(of: .notebooks).isEmpty)
            world.network.hold(.answers)
            try client.perform(AddNotebook(id: "1", title: "Ideas"))
            try await world.network.waitForHeld(1)
            try world.device.kill()
            world.network.release()
            let next = try world.device.launch()
            try await next.waitUntilIdle()

            #expect(world.server.requests("POST /notebooks") == 2)
            #expect(try world.server.change("ada") { $0.notebooks.map(\.title) } == ["Ideas"])
            #expect(next.outbox.refused.isEmpty)
        }
    }

    @Test func `an expired token is renewed once for many requests`() async throws {
        try await World.with { world in
            var ids: [String] = []
            for number in 0..<5 { ids.append(try world.notebook("\(number)", notes: 1).id) }
            let client = try await world.launch()
            world.server.expireTokens()
            try await withThrowingTaskGroup(of: Int.self) { group in
                for id in ids {
                    group.addTask { try await client.value(of: .notes(of: id)).count }
                }
                for try await count in group { #expect(count == 1) }
            }

            #expect(world.server.requests("POST /token") == 2)  // The sign-in, and one renewal.
        }
    }

    @Test func `tokens that are valid for two requests are sufficient for a day`() async throws {
        try await World.with(requestsPerToken: 2) { world in
            let ideas = try world.notebook("Ideas")
            let client = try await world.launch()
            for number in 0..<5 {
                _ = try await client.refresh(.notebooks)
                try client.perform(AddNote(note: draft("\(number)", in: ideas.id)))
                try await client.waitUntilIdle()
            }

            #expect(try world.server.change("ada") { $0.notes.count } == 5)
            #expect(client.outbox.refused.isEmpty)
            #expect(world.server.requests("POST /token") > 2)
        }
    }

    @Test func `a refused title is reverted, and other changes are kept`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas")
            let client = try await world.launch()
            _ = try await client.value(of: .notebooks)
            _ = try await client.value(of: .notes(of: ideas.id))
            _ = try world.notebook("Letters")
            world.goOffline()
            try client.perform(RenameNotebook(id: ideas.id, title: "Letters"))
            try client.perform(AddNote(note: draft("Engine", in: ideas.id)))
            let shown = client.cached(.notebooks)?.first { $0.id == ideas.id }
            #expect(shown == Notebook(id: ideas.id, title: "Letters", noteCount: 1))

            world.goOnline()
            try await client.waitUntilIdle()
            let refused = try #require(client.outbox.refused.first)
            let left = client.cached(.notebooks)?.first { $0.id == ideas.id }
            #expect(left == Notebook(id: ideas.id, title: "Ideas", noteCount: 1))
            #expect(refused.problem.code.rawValue == "title_taken")
            #expect(refused.problem.detail == "A notebook 'Letters' already exists.")
        }
    }

    @Test func `a growing list is loaded by cursor without duplicates`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas", notes: 50)
            let client = try await world.launch()
            let list = ListQuery.notes(of: ideas.id)
            #expect(try await client.value(of: list).count == 20)
            try world.server.change("ada") { shelf in
                _ = try shelf.addNote(to: ideas.id, "Newest", "", at: World.day)
            }
            try await client.loadNext(list)
            try await client.loadNext(list)
            let all = try await client.refresh(list)

            #expect(all.map(\.title) == ["Newest"] + (0..<50).reversed().map { "Note \($0)" })
            #expect(!client.snapshot(of: list).hasMore)
        }
    }

    @Test func `a deleted note does not reappear with an older answer`() async throws {
        try await World.with { world in
            let ideas = try world.notebook("Ideas", notes: 3)
            let client = try await world.launch()
            let list = ListQuery.notes(of: ideas.id)
            let gone = try #require(try await client.value(of: list).first)
            world.network.hold(.answers)
            let refresh = Task { try await client.refresh(list) }
            try await world.network.waitForHeld(1)
            try client.perform(DeleteNote(id: gone.id, notebook: ideas.id))
            try await world.network.releaseFirst { $0.method == "DELETE" }
            try await eventually("the deletion's answer") {
                client.outbox.summary.unsent == 0
            }
            try await world.network.releaseFirst { $0.method == "GET" }
            #expect(client.cached(list)?.contains { $0.id == gone.id } == false)

            world.network.release()
            _ = try await refresh.finished()
            try await client.waitUntilIdle()
            #expect(client.cached(list)?.map(\.title) == ["Note 1", "Note 0"])
        }
    }

    @Test func `users of one device neither see nor send each other's data`() async throws {
        try await World.with { world in
            _ = try world.notebook("Secret plans")
            let client = try await world.launch("ada")
            _ = try await client.value(of: .notebooks)
            world.goOffline()
            try client.perform(AddNotebook(id: "1", title: "Poems"))
            try await world.signOut()
            #expect(client.cached(.notebooks) == nil)
            #expect(try world.device.files(with: "Secret plans").isEmpty)

            world.goOnline()
            try await world.signIn("bob")
            #expect(try await client.refresh(.notebooks).isEmpty)
            try await client.waitUntilIdle()
            #expect(try world.server.change("bob") { $0.notebooks.isEmpty })

            try await world.signIn("ada")
            try await client.waitUntilIdle()
            let titles = try await client.refresh(.notebooks).map(\.title)
            #expect(titles == ["Poems", "Secret plans"])
        }
    }
}
