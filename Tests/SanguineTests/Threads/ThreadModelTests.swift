import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@MainActor
@Suite("Thread model", .bounded)
struct ThreadModelTests {
    let stage = ThreadStage()

    private func phases(_ model: ThreadModel) -> [ThreadMessage.Phase] {
        model.messages.map(\.phase)
    }

    private func texts(_ model: ThreadModel) -> [String] { model.messages.map(\.text) }

    @Test func `a question is in its thread at once, and its answer grows`() async throws {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        #expect(model.messages.isEmpty && model.thread == nil)
        try model.ask(Chat("When?", isWaiting: true))
        #expect(texts(model) == ["When?", ""] && phases(model) == [.complete, .making])
        #expect(model.isAnswering && model.thread?.function == Chat.name)
        #expect(client.cached(.balance)?.held == 3)
        stage.allow(2)
        try await eventually("two parts have arrived") { texts(model).last == "You asked: " }
        #expect(phases(model) == [.complete, .making])
        stage.allow(3)
        try await eventually("the answer is complete") { !model.isAnswering }
        #expect(texts(model) == ["When?", "You asked: When?"])
        #expect(model.messages.last?.charged == 3 && model.error == nil)
        try await eventually("the feed has brought the messages") {
            client.users.current.threads.pending.all.isEmpty
        }
        #expect(texts(model) == ["When?", "You asked: When?"])
        #expect(model.thread?.messages == 2 && model.messages.map(\.record.position) == [1, 2])
        try await eventually("the call is no longer open") { client.openCalls.isEmpty }
    }

    @Test func `another device shows the question and follows the answer`() async throws {
        let (phone, tablet) = (
            try await stage.launch(stage.phone), try await stage.launch(stage.tablet)
        )
        let shown = tablet.threads.model(of: stage.thread)
        try phone.threads.model(of: stage.thread).ask(Chat("When?", isWaiting: true))
        try await eventually("the question has arrived") { texts(shown) == ["When?", ""] }
        #expect(phases(shown) == [.complete, .making])
        stage.allow(2)
        try await eventually("two parts have arrived") { texts(shown).last == "You asked: " }
        stage.allow(3)
        try await eventually("the answer is complete") { phases(shown).last == .complete }
        #expect(texts(shown) == ["When?", "You asked: When?"])
        #expect(stage.authority.balance().available == 97)
    }

    @Test func `an answer that another device cannot read is shown as an error and read again`()
        async throws
    {
        let phone = try await stage.launch(stage.phone)
        let key = try phone.threads.model(of: stage.thread).ask(Chat("When?", isWaiting: true))
        stage.allow(1)
        let authority = stage.authority
        try await eventually("the call has begun") {
            authority.records(ChatMessage.self).count == 2
        }
        authority.fail("/v1/calls/\(key)", with: Problem(.invalidContent, "A test's refusal."))
        let tablet = try await stage.launch(stage.tablet)
        let shown = tablet.threads.model(of: stage.thread)
        try await eventually("the failure is shown") { shown.error?.code == "invalid_content" }
        #expect(texts(shown) == ["When?", ""] && phases(shown) == [.complete, .making])
        shown.retry()
        #expect(shown.error == nil)
        try await eventually("a part has arrived") { texts(shown).last == "You " }
        stage.allow(3)
        try await eventually("the answer is complete") { phases(shown).last == .complete }
        #expect(texts(shown) == ["When?", "You asked: When?"] && shown.error == nil)
        #expect(authority.balance().available == 97)
    }

    @Test func `the error of an answer that cannot be read ends with the answer`() async throws {
        let phone = try await stage.launch(stage.phone)
        let key = try phone.threads.model(of: stage.thread).ask(Chat("When?", isWaiting: true))
        let authority = stage.authority
        try await eventually("the call has begun") {
            authority.records(ChatMessage.self).count == 2
        }
        authority.fail("/v1/calls/\(key)", with: Problem(.invalidContent, "A test's refusal."))
        let tablet = try await stage.launch(stage.tablet)
        let shown = tablet.threads.model(of: stage.thread)
        try await eventually("the failure is shown") { shown.error != nil }
        stage.allow(3)
        try await eventually("the feed has brought the answer") {
            phases(shown).last == .complete
        }
        #expect(texts(shown) == ["When?", "You asked: When?"] && shown.error == nil)
    }

    @Test func `a question without a network waits in its thread and survives a restart`()
        async throws
    {
        var client = try await stage.launch(stage.phone)
        stage.goOffline(stage.phone)
        try client.threads.model(of: stage.thread).ask(Chat("When?"))
        #expect(phases(client.threads.model(of: stage.thread)) == [.waiting, .waiting])
        client = try stage.phone.launch()
        let model = client.threads.model(of: stage.thread)
        #expect(texts(model) == ["When?", ""] && phases(model) == [.waiting, .waiting])
        #expect(client.threads.list().map(\.id) == [stage.thread])
        stage.goOnline(stage.phone)
        try await eventually("the answer is complete") { phases(model).last == .complete }
        #expect(texts(model) == ["When?", "You asked: When?"])
        #expect(stage.authority.records(ChatMessage.self).count == 2)
    }

    @Test func `a withdrawn question leaves no message`() async throws {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        stage.goOffline(stage.phone)
        try model.ask(Chat("When?"))
        #expect(try await model.stop() == 0)
        try await eventually("the messages are gone") { model.messages.isEmpty }
        #expect(model.thread == nil && model.error == nil)
        #expect(client.cached(.balance)?.held == 0)
    }

    @Test func `a refused call leaves no message, and its reason`() async throws {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        stage.authority.fail(
            ThreadStage.path,
            with: Problem(.insufficientTokens, "A test's refusal.")
        )
        try model.ask(Chat("When?"))
        #expect(model.messages.count == 2 && model.error == nil)
        try await eventually("the call is refused") { model.error != nil }
        #expect(model.error?.code == "insufficient_tokens")
        #expect(model.messages.isEmpty && model.thread == nil && client.threads.list().isEmpty)
        model.dismissError()
        #expect(model.error == nil)
    }

    @Test func `the next question removes the error of the last one`() async throws {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        stage.authority.fail(
            ThreadStage.path,
            with: Problem(.insufficientTokens, "A test's refusal.")
        )
        try model.ask(Chat("When?"))
        try await eventually("the call is refused") { model.error != nil }
        try model.ask(Chat("Where?"))
        #expect(model.error == nil && texts(model) == ["Where?", ""])
    }

    @Test func `a call that fails is shown as failed, and costs nothing`() async throws {
        stage.authority.serve(Chat.self, price: 3) { _ in
            throw Problem(.upstreamFailed, "A test's failure.")
        }
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        try model.ask(Chat("When?"))
        try await eventually("the call has failed") { phases(model).last == .failed }
        #expect(texts(model) == ["When?", ""] && model.messages.last?.charged ?? 0 == 0)
        #expect(stage.authority.balance().available == 100)
    }

    @Test func `a stopped answer is cut, with its text and the price that was paid`()
        async throws
    {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        try model.ask(Chat("When?", isWaiting: true))
        stage.allow(1)
        try await eventually("a part has arrived") { texts(model).last == "You " }
        #expect(try await model.stop() == 3)
        try await eventually("the answer is cut") { phases(model).last == .cut }
        #expect(texts(model).last == "You " && model.messages.last?.charged == 3)
        #expect(model.messages.last?.finishReason == "call_cancelled")
        try await client.synchronize()
        #expect(texts(model).last == "You " && phases(model).last == .cut)
    }

    @Test func `an answer that a kill has interrupted grows on after a restart`() async throws {
        var client = try await stage.launch(stage.phone)
        try client.threads.model(of: stage.thread).ask(Chat("When?", isWaiting: true))
        stage.allow(1)
        let first = client.threads.model(of: stage.thread)
        try await eventually("a part has arrived") { texts(first).last == "You " }
        client = try stage.phone.launch()
        let model = client.threads.model(of: stage.thread)
        #expect(texts(model).first == "When?" && phases(model) == [.complete, .making])
        try await eventually("the part has arrived again") { texts(model).last == "You " }
        stage.allow(3)
        try await eventually("the answer is complete") { phases(model).last == .complete }
        #expect(texts(model) == ["When?", "You asked: When?"])
        #expect(stage.authority.balance().available == 97)
        try await eventually("the call is no longer open") { client.openCalls.isEmpty }
    }

    @Test func `a call by the client is shown in the thread's model`() async throws {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        let answer = Task { try await client.call(Chat("When?"), in: stage.thread) }
        try await eventually("the answer is complete") { phases(model).last == .complete }
        #expect(try await answer.finished() == "You asked: When?")
        #expect(texts(model) == ["When?", "You asked: When?"])
    }

    @Test func `all views of a thread share one model, which a sign-out empties`() async throws {
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        #expect(model === client.threads.model(of: stage.thread))
        try await stage.ask(client, in: stage.thread, "When?")
        try await eventually("the message is shown") { model.messages.count == 2 }
        await client.signOut()
        #expect(model.messages.isEmpty && model.thread == nil)
    }
}

@MainActor
@Suite("Pages of a thread", .bounded)
struct ThreadPageTests {
    let stage = ThreadStage()

    private func positions(_ model: ThreadModel) -> [Int] { model.messages.map(\.record.position) }

    @Test func `a model begins with the last page and loads earlier ones`() async throws {
        stage.write(stage.thread, questions: 100)
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        #expect(positions(model) == Array(151...200) && model.hasEarlier && !model.hasLater)
        model.loadEarlier()
        #expect(positions(model) == Array(101...200) && model.hasEarlier)
        model.loadEarlier()
        model.loadEarlier()
        #expect(positions(model) == Array(1...200) && !model.hasEarlier)
        model.loadEarlier()
        #expect(positions(model) == Array(1...200) && !model.hasLater)
    }

    @Test func `a model holds a window of a long thread and moves it in both directions`()
        async throws
    {
        stage.write(stage.thread, questions: 400)
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        for _ in 0..<20 { model.loadEarlier() }
        #expect(positions(model) == Array(1...500) && model.hasLater && !model.hasEarlier)
        model.loadLater()
        #expect(positions(model) == Array(51...550) && model.hasLater && model.hasEarlier)
        for _ in 0..<20 { model.loadLater() }
        #expect(positions(model) == Array(301...800) && !model.hasLater)
        model.loadNewest()
        #expect(positions(model) == Array(751...800) && model.hasEarlier)
    }

    @Test func `new messages follow the last one, and the first one stays`() async throws {
        stage.write(stage.thread, questions: 60)
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        #expect(positions(model) == Array(71...120))
        try model.ask(Chat("When?"))
        #expect(positions(model) == Array(71...122))
        try await eventually("the answer is complete") { !model.isAnswering }
        #expect(positions(model) == Array(71...122) && model.hasEarlier)
    }

    @Test func `a question in an earlier part of the thread shows the last messages`()
        async throws
    {
        stage.write(stage.thread, questions: 400)
        let client = try await stage.launch(stage.phone)
        let model = client.threads.model(of: stage.thread)
        for _ in 0..<20 { model.loadEarlier() }
        try model.ask(Chat("When?"))
        #expect(model.messages.suffix(2).map(\.text) == ["When?", ""] && !model.hasLater)
    }

    @Test func `messages are read in pages without a model`() async throws {
        stage.write(stage.thread, questions: 10)
        let client = try await stage.launch(stage.phone)
        let last = client.threads.messages(of: stage.thread, limit: 6)
        #expect(last.map(\.record.position) == Array(15...20))
        let earlier = client.threads.messages(of: stage.thread, before: last.first, limit: 6)
        #expect(earlier.map(\.record.position) == Array(9...14))
        let first = client.threads.messages(of: stage.thread, before: earlier.first, limit: 60)
        #expect(first.map(\.record.position) == Array(1...8))
        #expect(client.threads.messages(of: stage.thread, before: first.first).isEmpty)
    }
}
