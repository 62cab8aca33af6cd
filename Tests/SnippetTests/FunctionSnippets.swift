import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The samples about calling functions.
@Suite("Function snippets", .bounded)
struct FunctionSnippets {
    private func client(_ authority: InMemoryAuthority) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration(server: URL(string: "http://test.invalid"))
        configuration.transport = authority
        configuration.isInMemory = true
        return try SanguineClient(configuration)
    }

    private let authority = InMemoryAuthority()

    @Test func `an answer arrives in parts and can be found again`() async throws {
        authority.serve(Ask.self) { input, write in
            for word in ["Because", " it", " is."] { await write(word) }
            return "Because it is."
        }
        let client = try client(authority)
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }
        let text = "Why?"

        let stream = try client.stream(Ask(question: text))
        for try await part in stream { show(part) }
        let result = try await stream.result

        #expect(shown == ["Because", " it", " is."] && result.output == shown.joined())
        let found = try await client.result(of: Ask.self, key: stream.key)
        #expect(found.output == result.output)

        for call in client.openCalls where call.function == Ask.name {
            show(call.input(of: Ask.self)?.question ?? "")
            show(try await client.result(of: Ask.self, key: call.key).output)
        }

        #expect(shown.count == 3)
    }

    @Test func `a call attaches a file`() async throws {
        struct Describe: FunctionCall {
            static let name = "describe"
            static let rules = FunctionRules(attachments: AttachmentRules(count: 4))
            typealias Output = String
            struct Input: Codable, Sendable { var question: String }
            let input: Input
            let attachments: [String]
        }

        authority.serve(Describe.self) { _ in "A house." }
        let client = try client(authority)
        let url = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).jpg")
        try Data(SampleFile.jpeg.bytes()).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }

        let photo = try await client.upload(.file(url, type: "image/jpeg"))
        let question = Describe.Input(question: "What is this?")
        let answer = try await client.call(Describe(input: question, attachments: [photo.id]))

        #expect(answer == "A house.")
    }

    @MainActor
    @Test func `an answer grows in a view`() async throws {
        authority.serve(Ask.self) { _ in "Because." }
        let client = try client(authority)
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }
        let text = "Why?"

        let answer = try client.answer(to: Ask(question: text))
        show(answer.text)
        let result = try await answer.finished()

        #expect(answer.text == "Because." && result.output == "Because." && shown == [""])
    }

    @Test func `a quote states the most a call can cost, and a prediction its likely cost`()
        async throws
    {
        authority.serve(Ask.self, price: 2, hold: 5) { _ in "Because." }
        let client = try client(authority)
        try await client.call(Ask(question: "Why?"))
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }
        let text = "Why?"

        let quote = try await client.quote(Ask(question: text))
        let predicted = client.predictedCost(of: Ask.self)
        show("about \(predicted.expected), at most \(quote.hold)")

        #expect(shown == ["about 2, at most 5"])
    }

    @Test func `a stream breaks in the kit's network and continues`() async throws {
        let authority = authority

        authority.serve(Ask.self) { input, write in
            for word in ["Because", " it", " is."] { await write(word) }
            return "Because it is."
        }
        let network = FaultyNetwork(authority, seed: 1, clock: ContinuousClock())
        network.breakStream(of: "/v1/functions/ask", afterParts: 1)

        var configuration = SanguineClient.Configuration(server: URL(string: "http://test.invalid"))
        configuration.transport = network
        configuration.isInMemory = true
        let client = try SanguineClient(configuration)
        var text = ""
        for try await part in try client.stream(Ask(question: "Why?")) { text += part }
        #expect(text == "Because it is." && network.count(of: .streamBroken) == 1)
    }
}
