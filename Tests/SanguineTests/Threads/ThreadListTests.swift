import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Threads on devices", .bounded)
struct ThreadListTests {
    let stage = ThreadStage()

    private static let threads = (0...3).map { _ in RecordID.new() }

    private func thread(_ number: Int) -> RecordID { Self.threads[number] }

    @Test func `two devices and a reinstall show the same threads in the same order`()
        async throws
    {
        let (phone, tablet) = (
            try await stage.launch(stage.phone), try await stage.launch(stage.tablet)
        )
        try await stage.ask(phone, in: thread(1), "one", "two")
        try await stage.ask(tablet, in: thread(2), "three")
        try await stage.ask(phone, in: thread(3), "four")
        try await stage.ask(tablet, in: thread(1), "five")
        let laptop = stage.newDevice()
        defer { laptop.quit() }
        let fresh = try await stage.launch(laptop)
        for client in [phone, tablet, fresh] {
            try await client.synchronize()
            #expect(client.threads.list().map(\.id) == [thread(1), thread(3), thread(2)])
            #expect(
                client.texts(thread(1)) == [
                    "one", "You asked: one", "two", "You asked: two", "five", "You asked: five",
                ]
            )
        }
        #expect(phone.threads.list() == tablet.threads.list())
        #expect(phone.threads.list() == fresh.threads.list())
    }

    @Test func `threads and messages are readable without a network after a restart`()
        async throws
    {
        var client = try await stage.launch(stage.phone)
        try await stage.ask(client, in: thread(1), "one")
        try await client.synchronize()
        stage.phone.quit()
        stage.goOffline(stage.phone)
        client = try stage.phone.launch()
        #expect(client.threads.list().map(\.id) == [thread(1)])
        #expect(client.texts(thread(1)) == ["one", "You asked: one"])
    }

    @Test func `an answer that the feed has not brought is readable after a restart`()
        async throws
    {
        var client = try await stage.launch(stage.phone)
        stage.authority.fail(
            "/v1/sync/pull",
            with: Problem(.overloaded, "A test's failure."),
            times: 1_000
        )
        stage.authority.fail("/v1/live", with: Problem(.overloaded, "A test's failure."), times: 99)
        stage.authority.endStreams()
        #expect(try await client.call(Chat("one"), in: thread(1)) == "You asked: one")
        stage.phone.quit()
        stage.goOffline(stage.phone)
        client = try stage.phone.launch()
        #expect(client.texts(thread(1)) == ["one", "You asked: one"])
        #expect(client.threads.list().map(\.id) == [thread(1)])
    }

    @Test func `a title is shown at once and travels to other devices`() async throws {
        let (phone, tablet) = (
            try await stage.launch(stage.phone), try await stage.launch(stage.tablet)
        )
        try await stage.ask(phone, in: thread(1), "one")
        try await phone.synchronize()
        let receipt = try phone.threads.rename(thread(1), to: "Venus")
        #expect(phone.threads.list().first?.title == "Venus")
        #expect(try await receipt.outcome == .applied)
        try await tablet.synchronize()
        #expect(tablet.threads.list().first?.title == "Venus")
        #expect(tablet.threads.list().first?.titleSource == .own)
    }

    @Test func `areas divide the list, and settings are merged`() async throws {
        let client = try await stage.launch(stage.phone)
        try await stage.ask(client, in: thread(1), "one")
        try await stage.ask(client, in: thread(2), "two")
        try await client.synchronize()
        try client.threads.set(thread(1), area: "love", settings: ["tone": "calm"])
        try client.threads.set(thread(1), settings: ["length": 3])
        #expect(client.threads.list(in: "love").map(\.id) == [thread(1)])
        #expect(client.threads.list(in: "career").isEmpty && client.threads.list().count == 2)
        #expect(client.threads.list(in: "love").first?.settings == ["tone": "calm", "length": 3])
        try client.threads.set(thread(1), area: "")
        #expect(client.threads.list(in: "love").isEmpty)
    }

    @Test func `a title of a thread that does not exist is refused at once`() async throws {
        let client = try await stage.launch(stage.phone)
        let error = #expect(throws: SanguineError.self) {
            try client.threads.rename(thread(1), to: "Venus")
        }
        #expect(error?.code == "not_found")
    }

    @Test func `a deletion hides the messages at once and travels to other devices`()
        async throws
    {
        let (phone, tablet) = (
            try await stage.launch(stage.phone), try await stage.launch(stage.tablet)
        )
        try await stage.ask(phone, in: thread(1), "one")
        for client in [phone, tablet] { try await client.synchronize() }
        #expect(tablet.texts(thread(1)).count == 2)
        try phone.threads.delete(thread(1))
        #expect(phone.threads.list().isEmpty && phone.texts(thread(1)).isEmpty)
        for client in [phone, tablet] {
            try await client.synchronize()
            #expect(client.threads.list().isEmpty && client.texts(thread(1)).isEmpty)
        }
        await stage.authority.runJobs()
        for client in [phone, tablet] {
            try await client.synchronize()
            #expect(client.records(ChatMessage.self).isEmpty)
        }
    }

    @Test func `deleting a thread withdraws the questions that wait in it`() async throws {
        let client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        _ = try client.stream(Chat("one"), in: thread(1))
        #expect(client.texts(thread(1)) == ["one", ""])
        try client.threads.delete(thread(1))
        #expect(client.threads.list().isEmpty && client.texts(thread(1)).isEmpty)
        try await eventually("the call is withdrawn") { client.openCalls.isEmpty }
        stage.goOnline(stage.phone)
        try await client.synchronize()
        #expect(stage.authority.records(ChatMessage.self).isEmpty)
        #expect(stage.authority.balance().available == 100)
    }

    @Test func `a thread that another device has deleted shows no answer of this one`()
        async throws
    {
        let (phone, tablet) = (
            try await stage.launch(stage.phone), try await stage.launch(stage.tablet)
        )
        try await stage.ask(phone, in: thread(1), "one")
        for client in [phone, tablet] { try await client.synchronize() }
        stage.goOffline(stage.phone)
        _ = try phone.stream(Chat("two"), in: thread(1))
        #expect(phone.texts(thread(1)) == ["one", "You asked: one", "two", ""])
        stage.network.heal()
        try tablet.threads.delete(thread(1))
        try await tablet.synchronize()
        stage.goOnline(stage.phone)
        try await eventually("the call is refused") { phone.openCalls.allSatisfy(\.hasEnded) }
        try await phone.synchronize()
        #expect(phone.threads.list().isEmpty && phone.texts(thread(1)).isEmpty)
        #expect(stage.authority.balance().available == 97)
    }

    @Test func `a sign-out leaves no message in memory or on disk`() async throws {
        let client = try await stage.launch(stage.phone)
        try await stage.ask(client, in: thread(1), "retrograde-77003")
        try await client.synchronize()
        #expect(try await client.found("retro").count == 2)
        stage.goOffline(stage.phone)
        _ = try client.stream(Chat("retrograde-77004"), in: thread(1))
        #expect(try !stage.phone.files(with: "retrograde-7700").isEmpty)
        await client.signOut()
        #expect(client.threads.list().isEmpty && client.texts(thread(1)).isEmpty)
        try await eventually("the files are removed") {
            try stage.phone.files(with: "retrograde-7700").isEmpty
        }
    }

    @Test func `a thread's id in upper case names the same thread`() async throws {
        // `UUID()` prints upper case.
        let upper = try #require(RecordID("0199F3C8-ABCD-7C1E-9A54-3D2B8E07F6AA"))
        let lower = try #require(RecordID(upper.text.lowercased()))
        let client = try await stage.launch(stage.phone)
        try await stage.ask(client, in: upper, "one")
        try await client.synchronize()
        #expect(client.threads.list().map(\.id) == [lower])
        #expect(client.record(ChatThread.self, upper)?.id == lower)
        let texts = ["one", "You asked: one"]
        #expect(client.texts(upper) == texts && client.texts(lower) == texts)
        let (query, model) = await (
            client.model(.messages(of: upper)), client.threads.model(of: upper)
        )
        let (listed, shown) = await (query.value.map(\.text), model.messages.map(\.text))
        #expect(listed == texts && shown == texts)
        try client.threads.rename(upper, to: "Venus")
        #expect(client.threads.list().first?.title == "Venus")
        stage.goOffline(stage.phone)
        _ = try client.stream(Chat("two"), in: upper)
        #expect(client.texts(lower) == texts + ["two", ""])
        try client.threads.delete(upper)
        #expect(client.threads.list().isEmpty && client.texts(lower).isEmpty)
        try await eventually("the call is withdrawn") { client.openCalls.isEmpty }
    }

    @Test func `a thread's id must be a UUID`() async throws {
        let client = try await stage.launch(stage.phone)
        let id = try #require(RecordID("a-thread"))
        let error = #expect(throws: SanguineError.self) {
            try client.stream(Chat("one"), in: id)
        }
        #expect(error?.code == "invalid_content" && client.openCalls.isEmpty)
    }
}
