import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A call of `tell` by a version of the app that expects a different output.
private struct TellNumber: FunctionCall {
    static let name = Tell.name
    static let rules = Tell.rules
    typealias Output = Int
    var input: Tell.Input
}

/// A call of `remind` by the version of the app that made it.
private struct Remind: FunctionCall {
    static let name = "remind"
    typealias Output = String

    struct Input: Codable, Sendable {
        var text: String
        var at: Date
    }

    var input: Input
}

/// A call of `remind` by a later version, whose input has another member.
private struct RemindOften: FunctionCall {
    static let name = Remind.name
    typealias Output = String

    struct Input: Codable, Sendable, Defaulted {
        static let defaults = Input(text: "", at: .distantPast, times: 1)
        var text: String
        var at: Date
        var times: Int
    }

    var input: Input
}

/// A call is open until the app has read its answer to the end.
@Suite("Open calls", .bounded)
struct OpenCallTests {
    let stage = StreamStage()

    @Test func `an answer that arrived at once is open until it is read`() async throws {
        var client = try await stage.launch()
        let call = Tell(parts: 3)
        let stream = try client.stream(call)
        try await eventually("the call is charged") { stage.authority.balance().available == 97 }
        var parts = stream.makeAsyncIterator()
        #expect(try await parts.next() == call.texts[0])
        #expect(client.openCalls.map(\.key) == [stream.key])
        client = try stage.device.launch()
        #expect(client.openCalls.map(\.key) == [stream.key])
        let result = try await client.result(of: Tell.self, key: stream.key)
        #expect(result.output == call.text && client.openCalls.isEmpty)
        client = try stage.device.launch()
        #expect(client.openCalls.isEmpty)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `a function without streaming is open until its one part is read to the end`()
        async throws
    {
        stage.authority.serve(Ask.self, price: 3) { _ in "because" }
        let client = try await stage.launch()
        let stream = try client.stream(Ask(question: "why?"))
        var parts = stream.makeAsyncIterator()
        #expect(try await parts.next() == "because")
        #expect(client.openCalls.map(\.key) == [stream.key])
        #expect(try await parts.next() == nil)
        #expect(client.openCalls.isEmpty)
    }

    @Test func `an output that cannot be decoded leaves the call open`() async throws {
        let client = try await stage.launch()
        let call = Tell(parts: 2)
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(TellNumber(input: call.input))
        }
        #expect(error?.code == "decoding")
        let key = try #require(client.openCalls.first?.key)
        #expect(try await client.result(of: Tell.self, key: key).output == call.text)
        #expect(client.openCalls.isEmpty)
    }

    @Test func `a stream with an undecodable output leaves the call open`() async throws {
        let client = try await stage.launch()
        let stream = try client.stream(TellNumber(input: Tell(parts: 2).input))
        _ = try await within(.seconds(20), "the end of the stream") {
            try await stream.reduce(0) { count, _ in count + 1 }
        }
        #expect(client.openCalls.map(\.key) == [stream.key])
        let error = await #expect(throws: SanguineError.self) {
            try await within(.seconds(20), "the result") {
                try await client.result(of: TellNumber.self, key: stream.key)
            }
        }
        #expect(error?.code == "decoding" && client.openCalls.map(\.key) == [stream.key])
    }

    @MainActor
    @Test func `a model with an undecodable output leaves the call open`() async throws {
        let client = try await stage.launch()
        let answer = try client.answer(to: TellNumber(input: Tell(parts: 2).input))
        let error = await #expect(throws: SanguineError.self) { try await answer.finished() }
        #expect(error?.code == "decoding")
        #expect(client.openCalls.map(\.key) == [answer.key])
    }

    @Test func `an open call has its input, even after a restart, until it is read`() async throws {
        var client = try await stage.launch()
        let call = Tell(seed: 77_777_001, parts: 2, isWaiting: true)
        let key = try client.stream(call).key
        #expect(client.openCalls.first?.input(of: Tell.self)?.seed == 77_777_001)
        try await eventually("the call is held") { stage.authority.balance().held == 3 }
        client = try stage.device.launch()
        #expect(client.openCalls.first?.input(of: Tell.self)?.seed == 77_777_001)
        #expect(client.openCalls.first?.input(of: Ask.self) == nil)
        #expect(try !stage.device.files(with: "77777001").isEmpty)
        stage.allow(2)
        _ = try await client.result(of: Tell.self, key: key)
        #expect(client.openCalls.isEmpty)
        client = try stage.device.launch()
        #expect(try client.users.current.store.state("call \(key)") == nil)
        #expect(try stage.device.files(with: "77777001").isEmpty)
    }

    @Test func `a later version of the app decodes the input with its defaults`() async throws {
        let date = Date(timeIntervalSince1970: 1_767_225_600)
        stage.authority.serve(Remind.self, price: 3) { input in "at \(input.at == date)" }
        let client = try await stage.launch()
        let stream = try client.stream(Remind(input: Remind.Input(text: "tea", at: date)))
        let asked = try #require(client.openCalls.first?.input(of: RemindOften.self))
        #expect(asked.text == "tea" && asked.at == date && asked.times == 1)
        #expect(try await stream.whole().output == "at true")
    }

    @Test func `the input is removed at a sign-out`() async throws {
        let client = try await stage.launch()
        stage.allow(0)
        _ = try client.stream(Tell(seed: 77_777_002, parts: 1, isWaiting: true))
        try await eventually("the call is held") { stage.authority.balance().held == 3 }
        await client.signOut()
        #expect(client.openCalls.isEmpty)
        #expect(try stage.device.files(with: "77777002").isEmpty)
    }

    @Test func `a large input is not stored, but the call is`() async throws {
        struct Long: FunctionCall {
            static let name = "long"
            typealias Output = String
            var input: [String: String]
        }
        stage.authority.serve(Long.self) { _ in "read" }
        let client = try await stage.launch()
        let text = String(repeating: "x", count: BalanceLimits.keptRequestBytes)
        let stream = try client.stream(Long(input: ["text": text]))
        #expect(client.openCalls.map(\.key) == [stream.key])
        #expect(client.openCalls.first?.input(of: Long.self) == nil)
        #expect(try await stream.whole().output == "read")
    }

    @Test func `a finished call is refused and not retried`() async throws {
        stage.authority.serve(Tell.self) { _, write in
            await write("Once")
            throw Problem(.upstreamFailed, "A test's refusal.")
        }
        let client = try await stage.launch()
        let stream = try client.stream(Tell(parts: 1))
        let first = await #expect(throws: SanguineError.self) { try await stream.whole() }
        #expect(first?.code == "upstream_failed" && first?.errorClass == .refused)
        let again = await #expect(throws: SanguineError.self) {
            try await client.result(of: Tell.self, key: stream.key)
        }
        #expect(again?.code == "upstream_failed" && again?.errorClass == .refused)
        let whole = await #expect(throws: SanguineError.self) {
            try await client.call(Tell(parts: 1))
        }
        #expect(whole?.errorClass == .refused)
    }

    @Test func `an unread failure is open, and refused after a restart`() async throws {
        stage.authority.serve(Tell.self) { _, _ in throw Problem(.upstreamFailed, "No.") }
        var client = try await stage.launch()
        let key = try client.stream(TellLater(parts: 1)).key
        try await eventually("the call has failed") {
            stage.count("POST \(StreamStage.path)") == 1
        }
        client = try stage.device.launch()
        #expect(client.openCalls.map(\.key) == [key])
        let error = await #expect(throws: SanguineError.self) {
            try await client.result(of: Tell.self, key: key)
        }
        #expect(error?.errorClass == .refused && client.openCalls.isEmpty)
    }
}

/// A call requested by its key while another reader reads it, on a stopped clock.
@MainActor
@Suite("Results by key", .bounded)
struct ResultByKeyTests {
    private let authority = InMemoryAuthority()
    private let device: TestDevice
    private let allowed = WatchedState(false)

    init() {
        device = TestDevice(network: authority) { $0.logger = .silent }
        authority.serve(Ask.self, price: 3) { [allowed] input, write in
            await write("You asked: ")
            try await allowed.wait(for: "the test's permission", within: .seconds(20)) { $0 }
            await write(input.question)
            return "You asked: \(input.question)"
        }
    }

    @Test func `a result requested by its key arrives while the clock stands still`() async throws {
        let client = try device.launch()
        let key = try client.stream(Ask(question: "why?")).key
        let result = Task { try await client.result(of: Ask.self, key: key) }
        try await eventually("the call is held") {
            authority.balance(of: client.accountId).held == 3
        }
        allowed.withLock { $0 = true }
        #expect(try await result.finished().output == "You asked: why?")
        #expect(client.openCalls.isEmpty)
    }

    @Test func `the call of an awaited model is open until its end is shown`() async throws {
        let client = try device.launch()
        let model = try client.answer(to: Ask(question: "why?"))
        let byKey = Task { try await client.result(of: Ask.self, key: model.key) }
        try await eventually("the first part has arrived") { model.phase == .answering }
        #expect(client.openCalls.map(\.key) == [model.key])
        allowed.withLock { $0 = true }
        let result = try await model.finished()
        #expect(model.phase == .done && model.result == result && model.text == result.output)
        #expect(try await byKey.finished() == result)
        try await eventually("the call is closed") { client.openCalls.isEmpty }
        #expect(try await model.finished() == result)
    }

    @Test func `cancelling the wait for a model does not cancel the call`() async throws {
        let client = try device.launch()
        let model = try client.answer(to: Ask(question: "why?"))
        let waiting = Task { try await model.finished() }
        waiting.cancel()
        await #expect(throws: SanguineError.cancelled) { try await waiting.finished() }
        allowed.withLock { $0 = true }
        #expect(try await model.finished().output == "You asked: why?")
    }

    @Test func `a model that failed throws its error to its waiting callers`() async throws {
        authority.serve(Ask.self) { _ in throw Problem(.upstreamFailed, "No.") }
        let client = try device.launch()
        let model = try client.answer(to: Ask(question: "why?"))
        let error = await #expect(throws: SanguineError.self) { try await model.finished() }
        #expect(error?.code == "upstream_failed" && model.error == error)
    }
}
