import Foundation
import Sanguine
import SanguineTesting
import Synchronization
import TestSupport
import Testing

/// The samples about threads.
@MainActor
@Suite("Thread snippets", .bounded)
struct ThreadSnippets {
    struct Chat: FunctionCall {
        struct Input: Codable, Sendable { var question: String }
        typealias Output = String
        static let name = "chat"
        static let rules = FunctionRules(price: .fixed(2), streams: true, keepsHistory: true)
        static let whenOffline = OfflineCall.queue
        let input: Input
    }

    private func client() throws -> SanguineClient {
        let authority = InMemoryAuthority()
        authority.serve(Chat.self, price: 2) { "About: \($0.question)" }
        var configuration = SanguineClient.Configuration(server: URL(string: "http://test.invalid"))
        configuration.transport = authority
        configuration.isInMemory = true
        return try SanguineClient(configuration)
    }

    @Test func `a conversation is shown, changed and found`() async throws {
        let client = try client()
        defer { client.close() }
        var shown: [String] = []
        func show(_ text: String, _ phase: ThreadMessage.Phase? = nil) { shown.append(text) }

        let id = RecordID.new()
        let question = Chat.Input(question: "When does Venus rise?")
        let answer = try await client.call(Chat(input: question), in: id)

        #expect(answer == "About: When does Venus rise?")

        let thread = client.threads.model(of: id)
        try thread.ask(Chat(input: Chat.Input(question: "And Mars?")))
        for message in thread.messages { show(message.text, message.phase) }

        #expect(
            shown == ["When does Venus rise?", "About: When does Venus rise?", "And Mars?", ""]
        )
        try await eventually("the answer is complete") {
            thread.messages.last?.text == "About: And Mars?"
        }
        try await client.synchronize()
        shown = []

        let search = try await client.threads.search(prefix: "ven ris")
        for result in search.results { show(result.message?.text ?? result.thread.title ?? "") }

        #expect(shown.allSatisfy { $0.contains("Venus") })
        shown = []

        try client.threads.rename(id, to: "Venus")
        try client.threads.set(id, area: "love", settings: ["tone": "calm"])
        for thread in client.threads.list(in: "love") { show(thread.title ?? "New") }
        try client.threads.delete(id)

        #expect(shown == ["Venus"] && client.threads.list().isEmpty)
    }
}
