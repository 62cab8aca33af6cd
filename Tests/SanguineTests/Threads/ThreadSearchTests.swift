import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The statements that a connection has run.
private final class Statements: Sendable {
    private let guarded = Mutex<[String]>([])

    var all: [String] { guarded.withLock { $0 } }

    func trace(_ reader: DatabaseQueue) throws {
        reader.unsafeRead { database in
            database.trace { event in self.guarded.withLock { $0.append("\(event)") } }
        }
    }
}

@Suite("Search in threads", .bounded)
struct ThreadSearchTests {
    let stage = ThreadStage()

    private func texts(_ results: [ThreadSearch.Result]) -> [String] {
        results.map { $0.message?.text ?? "title: \($0.thread.title ?? "")" }
    }

    @Test func `messages are found by the beginnings of words, the newest first`() async throws {
        let client = try await stage.launch(stage.phone)
        try await stage.ask(client, in: stage.thread, "Venus retrograde", "When is Vénus late?")
        try await client.synchronize()
        #expect(
            texts(try await client.found("ven")) == [
                "You asked: When is Vénus late?", "When is Vénus late?",
                "You asked: Venus retrograde", "Venus retrograde",
            ]
        )
        #expect(
            texts(try await client.found("retro VENUS")) == [
                "You asked: Venus retrograde", "Venus retrograde",
            ]
        )
        #expect(try await client.found("enus").isEmpty)
        #expect(try await client.found(" ?! ").isEmpty)
    }

    @Test func `a long word is found by each of its beginnings, and by no other long one`()
        async throws
    {
        let client = try await stage.launch(stage.phone)
        let word = "Überraschungen"
        try await stage.ask(client, in: stage.thread, "Zwei \(word)", "Überraschender Mars")
        try await client.synchronize()
        for length in 1...word.count {
            let found = try await client.found("zw " + word.prefix(length))
            #expect(found.count == 2, "the first \(length) characters")
        }
        #expect(try await client.found("überraschunk").isEmpty)
        #expect(try await client.found("überraschende").count == 2)
    }

    @Test func `new messages, titles and deletions are found or not at once`() async throws {
        let client = try await stage.launch(stage.phone)
        #expect(try await client.found("mars").isEmpty)
        try await stage.ask(client, in: stage.thread, "Mars")
        try await client.synchronize()
        #expect(try await client.found("mars").count == 2)
        try client.threads.rename(stage.thread, to: "Red planet")
        #expect(texts(try await client.found("plan")) == ["title: Red planet"])
        try await client.synchronize()
        #expect(texts(try await client.found("plan")) == ["title: Red planet"])
        try client.threads.rename(stage.thread, to: "Red star")
        #expect(try await client.found("plan").isEmpty)
        #expect(texts(try await client.found("red st")) == ["title: Red star"])
        try client.threads.delete(stage.thread)
        #expect(try await client.found("mars").isEmpty)
        #expect(try await client.found("red").isEmpty)
    }

    @Test func `a question that waits for a network is found`() async throws {
        let client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        _ = try client.stream(Chat("Jupiter"), in: stage.thread)
        #expect(texts(try await client.found("jup")) == ["Jupiter"])
    }

    @Test func `a search in an area finds only its threads`() async throws {
        let client = try await stage.launch(stage.phone)
        let other = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 8)))
        try await stage.ask(client, in: stage.thread, "Venus one")
        try await stage.ask(client, in: other, "Venus two")
        try await client.synchronize()
        try client.threads.set(other, area: "love")
        let found = try await client.found("venus", in: "love")
        #expect(texts(found) == ["You asked: Venus two", "Venus two"])
    }

    @Test func `a search that ends at its limit before the area's messages is incomplete`()
        async throws
    {
        let client = try await stage.launch(stage.phone)
        let old = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 8)))
        try await stage.ask(client, in: old, "number first")
        try await client.synchronize()
        try client.threads.set(old, area: "love")
        stage.wall.advance(by: .seconds(1))
        stage.write(stage.thread, questions: MessageLimits.searchedPlaces / 2 + 1) { "number\($0)" }
        try await client.synchronize()
        #expect(try await client.found("first").count == 2)
        let cut = try await client.threads.search(prefix: "number", in: "love")
        #expect(cut.results.isEmpty && !cut.isComplete)
        let narrow = try await client.threads.search(prefix: "number first", in: "love")
        #expect(narrow.results.count == 2 && narrow.isComplete)
    }

    @Test func `the index is used again after a restart, and follows what has changed`()
        async throws
    {
        stage.write(stage.thread, questions: 300) { "number\($0)" }
        var client = try await stage.launch(stage.phone)
        #expect(texts(try await client.found("number77")) == ["number77"])
        #expect(try await client.found("number1").count == MessageLimits.searchResults)
        stage.phone.quit()
        let removed = try #require(ChatMessage.answer(of: "0199f3c8-0000-7000-8000-000000000038"))
        stage.authority.delete(ChatMessage.self, removed)  // The 78th message.
        try await stage.ask(try await stage.launch(stage.tablet), in: stage.thread, "Uranus")
        client = try await stage.launch(stage.phone)
        #expect(texts(try await client.found("number77")) == ["number77"])
        #expect(try await client.found("number78").isEmpty)
        #expect(try await client.found("ura").count == 2)
    }

    @Test func `a search after a failure is incomplete, and compares all messages again`()
        async throws
    {
        stage.write(stage.thread, questions: 3) { "number\($0)" }
        let client = try await stage.launch(stage.phone)
        let file = try #require(client.users.current.outbox.read { $0.records })
        let writer = try file.openConnections.writer
        func rename(_ from: String, _ to: String) async throws {
            try await writer.writeWithoutTransaction { database in
                try database.execute(sql: "ALTER TABLE \(from) RENAME TO \(to)")
            }
        }
        try await rename("record", "lost")
        #expect(try await !client.threads.search(prefix: "number").isComplete)
        try await eventually("the failure is reported") {
            client.storeReport.failure?.contains("no such table") == true
        }
        let second = try await client.threads.search(prefix: "number")
        #expect(!second.isComplete && second.results.isEmpty)
        try await rename("lost", "record")
        #expect(try await client.found("number").count == 6)
    }

    @Test func `an unchanged index is compared without reading a message`() async throws {
        stage.write(stage.thread, questions: 300) { "number\($0)" }
        var client = try await stage.launch(stage.phone)
        #expect(texts(try await client.found("number77")) == ["number77"])
        stage.phone.quit()
        client = try await stage.launch(stage.phone)
        let file = try #require(client.users.current.outbox.read { $0.records })
        let statements = Statements()
        try statements.trace(file.openConnections.reader)
        #expect(texts(try await client.found("number77")) == ["number77"])
        let all = statements.all
        #expect(all.contains { $0.contains("SELECT id, seq FROM record") })
        #expect(!all.contains { $0.contains("SELECT id, seq, value FROM record") })
    }

    @Test func `a damaged index is rebuilt`() async throws {
        var client = try await stage.launch(stage.phone)
        try await stage.ask(client, in: stage.thread, "Venus")
        try await client.synchronize()
        #expect(try await client.found("venus").count == 2)
        let folder = try #require(client.users.current.folder).url
        stage.phone.quit()
        try Data(repeating: 0x78, count: 8_192).write(to: folder.appending(path: SearchFile.name))
        client = try await stage.launch(stage.phone)
        #expect(try await client.found("venus").count == 2)
        #expect(client.storeReport.failure != nil)
    }

    @Test func `another account never finds a text`() async throws {
        let stage = ThreadStage(accounts: .onePerDevice)
        defer { for device in [stage.phone, stage.tablet] { device.quit() } }
        let (phone, tablet) = (
            try await stage.launch(stage.phone), try await stage.launch(stage.tablet)
        )
        try await stage.ask(phone, in: stage.thread, "Venus")
        try await phone.synchronize()
        try await tablet.synchronize()
        #expect(try await phone.found("venus").count == 2)
        #expect(try await tablet.found("venus").isEmpty && tablet.threads.list().isEmpty)
        try await phone.eraseLocalData()
        #expect(try await phone.threads.search(prefix: "venus").results.isEmpty)
        _ = try await phone.value(of: .balance)
        try await phone.synchronize()
        #expect(try await phone.found("venus").isEmpty)
    }
}

@Suite("Words of a search", .bounded)
struct SearchWordsTests {
    struct Sample: Sendable, CustomTestStringConvertible {
        let text: String
        let words: [String]

        var testDescription: String { text }
    }

    static let samples = [
        Sample(text: "", words: []),
        Sample(text: "?! -- …", words: []),
        Sample(text: "When does Venus rise, when?", words: ["when", "does", "venus", "rise"]),
        Sample(text: "e-mail: a.b@c 2027", words: ["e", "mail", "a", "b", "c", "2027"]),
        Sample(text: "Café CAFE\u{301} ＣＡＦＥ", words: ["cafe"]),
        Sample(text: "Straße ÄRGER", words: ["straße", "arger"]),
        Sample(text: "Йод", words: ["иод"]),
        Sample(text: "हिन्दी में", words: ["हिन्दी", "में"]),
        Sample(text: "東京都", words: ["東京", "京都", "都"]),
        Sample(text: "in東京", words: ["in", "東京", "京"]),
    ]

    @Test(arguments: samples)
    func `a text is split into words without case and accents`(sample: Sample) {
        let expected = sample.words.map { $0.decomposedStringWithCompatibilityMapping }
        let words = SearchWords.words(of: sample.text)
        #expect(words.map { Array($0.utf8) } == expected.map { Array($0.utf8) })
    }

    @Test func `a text is found by the beginnings of its words only`() {
        func isFound(_ query: String, _ text: String) -> Bool {
            SearchWords.isFound(SearchWords.words(of: query), in: text)
        }
        #expect(isFound("ven", "When does Venus rise?") && isFound("ris VENUS", "Venus rises"))
        #expect(!isFound("enus", "Venus") && !isFound("venus mars", "Venus"))
        #expect(isFound("京都", "東京都") && isFound("東", "東京都") && !isFound("東都", "東京都"))
    }

    @Test func `the number and the length of words are limited`() {
        #expect(SearchWords.words(of: "a b c d", limit: 2) == ["a", "b"])
        let long = SearchWords.words(of: String(repeating: "x", count: 1_000))
        #expect(long.map(\.count) == [MessageLimits.wordCharacters])
    }

    @Test func `words contain only characters that the index keeps together`() {
        var random = SplitMix64(seed: 5)
        for _ in 0..<2_000 {
            let scalars = (0..<20).compactMap { _ in
                Unicode.Scalar(UInt32.random(in: 0...0x2FFFF, using: &random))
            }
            var text = String.UnicodeScalarView()
            text.append(contentsOf: scalars)
            for word in SearchWords.words(of: String(text)) {
                let isPlain = word.utf8.allSatisfy { byte in
                    byte >= 0x80 || (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte)
                }
                #expect(isPlain && !word.isEmpty, "\(word.unicodeScalars.map(\.value))")
            }
        }
    }
}
