import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

extension ClientStore {
    /// Returns the names of the states that contain a text.
    fileprivate func names(with text: String) throws -> [String] {
        guard let folder = place else { return [] }
        let path = folder.appending(path: StoreFile.name).path
        var options = Configuration()
        options.busyMode = .timeout(5)  // The client may be writing.
        return try DatabaseQueue(path: path, configuration: options).read { database in
            try String.fetchAll(
                database,
                sql: "SELECT name FROM state WHERE instr(data, CAST(? AS BLOB)) > 0 ORDER BY name",
                arguments: [text]
            )
        }
    }
}

@Suite("Calls without a network", .bounded)
struct OfflineCallTests {
    let stage = StreamStage()

    private func goOffline() {
        stage.network.partition()
        stage.device.connectivity.disconnect()
    }

    private func goOnline() {
        stage.network.heal()
        stage.device.connectivity.connect()
    }

    @Test func `a call that does not queue is refused at once and holds nothing`() async throws {
        let client = try await stage.launch()
        goOffline()
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(Tell(parts: 1))
        }
        #expect(error?.code == "offline")
        let refusal = #expect(throws: SanguineError.self) { try client.stream(Tell(parts: 1)) }
        #expect(refusal?.code == "offline")
        #expect(client.cached(.balance)?.available == 100 && client.openCalls.isEmpty)
    }

    @Test func `a queued call shows its hold and is sent when the network returns`() async throws {
        let client = try await stage.launch()
        goOffline()
        let call = TellLater(parts: 3)
        let answer = Task { try await client.result(of: call) }
        try await eventually("the call waits") { client.openCalls.map(\.state) == [.waiting] }
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 3)
        goOnline()
        #expect(try await answer.finished().output == call.text)
        #expect(try await stage.isSettled(client, available: 97))
        #expect(client.openCalls.isEmpty)
        #expect(stage.count("POST \(StreamStage.path)") == 1)
    }

    @Test func `a queued call survives kills, is sent later, and its answer is available`()
        async throws
    {
        var client = try await stage.launch()
        goOffline()
        let call = TellLater(parts: 3)
        let stream = try client.stream(call)
        for _ in 1...3 {
            client = try stage.device.launch()
            #expect(client.openCalls.map(\.state) == [.waiting])
            #expect(client.cached(.balance)?.held == 3)
        }
        goOnline()
        try await eventually("the call is answered") {
            client.openCalls.map(\.state) == [.answered]
        }
        client = try stage.device.launch()
        #expect(client.openCalls.map(\.key) == [stream.key])
        #expect(try await client.result(of: TellLater.self, key: stream.key).output == call.text)
        #expect(client.openCalls.isEmpty)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `a call queued by an earlier version is sent, and its request removed`()
        async throws
    {
        var client = try await stage.launch()
        goOffline()
        let call = TellLater(seed: 77_777_003, parts: 2)
        let key = try client.stream(call).key
        let store = client.users.current.store
        let balance = try #require(try store.state(BalanceKeeper.stateName))
        #expect(try store.state("call \(key)") != nil)
        try store.setStates([BalanceKeeper.stateName: try Self.earlier(balance)])
        client = try stage.device.launch()
        #expect(client.openCalls.map(\.state) == [.waiting])
        goOnline()
        try await eventually("the call is answered") {
            client.openCalls.map(\.state) == [.answered]
        }
        #expect(try await client.result(of: TellLater.self, key: key).output == call.text)
        #expect(try client.users.current.store.names(with: "77777003").isEmpty)
        #expect(try await stage.isSettled(client, available: 97))
    }

    /// Returns the state as an earlier version stored it.
    private static func earlier(_ state: Data) throws -> Data {
        guard case .object(var members) = try JSONValue(written: Array(state)),
            case .array(let calls) = members["calls"]
        else { throw SanguineError.decoding("It has no calls.") }
        members["kept"] = nil
        members["calls"] = .array(
            calls.map { call in
                guard case .object(var call) = call else { return call }
                (call["begunAfter"], call["isLarge"]) = (nil, nil)
                return .object(call)
            }
        )
        return try JSONEncoder().encode(JSONValue.object(members))
    }

    @Test func `a call whose answer was lost in a kill is resent and charged once`() async throws {
        var client = try await stage.launch()
        var faults = FaultyNetwork.Faults()
        faults.answerLoss = 1
        stage.network.faults = faults
        let call = TellLater(parts: 2)
        let lost = Task { [client] in try await client.result(of: call) }
        try await eventually("the call is charged") { stage.authority.balance().available == 97 }
        try stage.device.kill()
        let refusal = await #expect(throws: SanguineError.self) { try await lost.finished() }
        #expect(refusal == .cancelled)
        stage.network.faults = .none
        client = try stage.device.launch()
        try await eventually("the call is answered") {
            client.openCalls.map(\.state) == [.answered]
        }
        let key = try #require(client.openCalls.first?.key)
        #expect(try await client.stream(of: TellLater.self, key: key).rest() == call.text)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `a queued call is found by its key as soon as it is listed`() async throws {
        let client = try await stage.launch()
        goOffline()
        let functions = client.users.current.functions
        let found = Mutex<CallInProgress?>(nil)
        functions.balance.onChange(
            BalanceKeeper.Handlers(
                changed: {
                    guard let key = functions.balance.calls.first?.key,
                        found.withLock({ $0 == nil })
                    else { return }
                    let call = try? functions.find(key)
                    found.withLock { $0 = call }
                },
                refresh: { _ in nil }
            )
        )
        let begun = try functions.begin(TellLater(parts: 1))
        #expect(found.withLock { $0 } === begun.callInProgress)
    }

    @Test func `a request is stored once and removed when its answer was read`() async throws {
        var client = try await stage.launch()
        goOffline()
        let call = TellLater(seed: 77_777_003, parts: 2)
        let key = try client.stream(call).key
        client = try stage.device.launch()
        #expect(try client.users.current.store.names(with: "77777003") == ["call \(key)"])
        #expect(client.openCalls.first?.input(of: TellLater.self)?.seed == 77_777_003)
        goOnline()
        try await eventually("the call is answered") {
            client.openCalls.map(\.state) == [.answered]
        }
        client = try stage.device.launch()
        #expect(client.openCalls.first?.input(of: TellLater.self)?.seed == 77_777_003)
        #expect(try await client.result(of: TellLater.self, key: key).output == call.text)
        #expect(try client.users.current.store.names(with: "77777003").isEmpty)
    }

    @Test func `a large request is stored until it is answered`() async throws {
        struct Long: FunctionCall {
            static let name = "long"
            static let whenOffline = OfflineCall.queue
            typealias Output = String
            var input: [String: String]
        }
        stage.authority.serve(Long.self, price: 3) { $0["text"].map { "\($0.count)" } ?? "" }
        var client = try await stage.launch()
        goOffline()
        let text = String(repeating: "x", count: BalanceLimits.keptRequestBytes)
        let key = try client.stream(Long(input: ["text": text])).key
        client = try stage.device.launch()
        #expect(client.openCalls.first?.input(of: Long.self) == nil)
        goOnline()
        try await eventually("the call is answered") {
            client.openCalls.map(\.state) == [.answered]
        }
        #expect(try await client.result(of: Long.self, key: key).output == "\(text.count)")
        #expect(try client.users.current.store.names(with: "xxxxxxxx").isEmpty)
    }

    @Test func `a queued call that is refused later reports why`() async throws {
        var client = try await stage.launch()
        goOffline()
        let key = try client.stream(TellLater(parts: 1)).key
        client = try stage.device.launch()
        stage.authority.setBalance(1)
        goOnline()
        try await eventually("the call has failed") { client.openCalls.first?.hasEnded == true }
        client = try stage.device.launch()
        let error = await #expect(throws: SanguineError.self) {
            try await client.result(of: TellLater.self, key: key)
        }
        #expect(error?.code == "insufficient_tokens")
        #expect(client.openCalls.isEmpty)
        #expect(try await stage.isSettled(client, available: 1))
    }

    @Test func `a queued call can be cancelled and is never sent`() async throws {
        let client = try await stage.launch()
        goOffline()
        let stream = try client.stream(TellLater(parts: 1))
        #expect(try await stream.cancel() == 0)
        let error = await #expect(throws: SanguineError.self) { try await stream.whole() }
        #expect(error?.code == "call_cancelled")
        #expect(client.cached(.balance)?.available == 100 && client.openCalls.isEmpty)
        goOnline()
        try await client.waitUntilIdle()
        #expect(stage.count("POST \(StreamStage.path)") == 0)
    }

    @Test func `at most a hundred calls are queued`() async throws {
        let client = try await stage.launch()
        stage.authority.grant(1_000)
        goOffline()
        for _ in 1...BalanceLimits.queuedCalls { _ = try client.stream(TellLater(parts: 1)) }
        let error = #expect(throws: SanguineError.self) { try client.stream(TellLater(parts: 1)) }
        #expect(error?.code == "overloaded")
        #expect(client.openCalls.count == BalanceLimits.queuedCalls)
    }

    @Test func `a sign-out ends queued calls`() async throws {
        let client = try await stage.launch()
        goOffline()
        let stream = try client.stream(TellLater(parts: 1))
        await client.signOut()
        let refusal = await #expect(throws: SanguineError.self) { try await stream.whole() }
        #expect(refusal == .userChanged)
        #expect(client.openCalls.isEmpty)
        goOnline()
        try await client.waitUntilIdle()
        #expect(stage.count("POST \(StreamStage.path)") == 0)
    }
}
