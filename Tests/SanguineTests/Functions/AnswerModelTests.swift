import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@MainActor
@Suite("Answer model", .bounded)
struct AnswerModelTests {
    let stage = StreamStage()

    @Test func `the text grows as it is generated, and the result arrives last`() async throws {
        let client = try await stage.launch()
        let call = Tell(parts: 4, isWaiting: true)
        let answer = try client.answer(to: call)
        #expect(answer.phase == .waiting && answer.text.isEmpty)
        #expect(client.cached(.balance)?.held == 3)
        stage.allow(2)
        try await eventually("two parts have arrived") {
            answer.text == call.texts.prefix(2).joined()
        }
        #expect(answer.phase == .answering && answer.result == nil)
        stage.allow(4)
        try await eventually("the answer is complete") { answer.phase == .done }
        #expect(answer.text == call.text && answer.result?.charged == 3 && answer.error == nil)
    }

    @Test(arguments: ["stop", "length", "content_filter", nil])
    func `the model reports why the answer ends`(reason: String?) async throws {
        let client = try await stage.launch()
        stage.authority.serve(Tell.name, hold: 3) { _ in
            .init(output: "Once upon", charge: 3, finishReason: reason)
        }
        let answer = try client.answer(to: Tell(parts: 1))
        #expect(answer.finishReason == nil)
        #expect(try await answer.finished().finishReason == reason)
        #expect(answer.finishReason == reason)
    }

    @Test func `stopping an answer ends the call and reports it`() async throws {
        let client = try await stage.launch()
        let answer = try client.answer(to: Tell(parts: 2, isWaiting: true))
        stage.allow(1)
        try await eventually("a part has arrived") { answer.phase == .answering }
        try await answer.stop()
        try await eventually("the answer has ended") { answer.phase == .failed }
        #expect(answer.error?.code == "call_cancelled")
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `a released answer continues and can be found again`() async throws {
        let client = try await stage.launch()
        let call = Tell(parts: 2, isWaiting: true)
        let key = try client.answer(to: call).key
        stage.allow(2)
        let answer = try client.answer(to: Tell.self, key: key)
        try await eventually("the answer is complete") { answer.phase == .done }
        #expect(answer.text == call.text)
        #expect(try await stage.isSettled(client, available: 97))
    }
}
