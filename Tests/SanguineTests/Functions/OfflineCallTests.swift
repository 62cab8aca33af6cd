import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

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

    @Test func `one that does not wait is refused at once, and holds nothing`() async throws {
        let client = try await stage.launch()
        goOffline()
        let error = await #expect(throws: SanguineError.self) {
            try await client.call(Tell(parts: 1))
        }
        #expect(error?.code == "offline")
        #expect(throws: SanguineError.self) { try client.stream(Tell(parts: 1)) }
        #expect(client.cached(.balance)?.available == 100 && client.openCalls.isEmpty)
    }

    @Test func `one that waits shows its hold, and is sent when there is a network`() async throws {
        let client = try await stage.launch()
        goOffline()
        let call = TellLater(parts: 3)
        let answer = Task { try await client.result(of: call) }
        try await eventually("it waits") { client.openCalls.map(\.state) == [.waiting] }
        #expect(client.cached(.balance)?.available == 97)
        #expect(client.cached(.balance)?.held == 3)
        goOnline()
        #expect(try await answer.finished().output == call.text)
        #expect(try await stage.isSettled(client, available: 97))
        #expect(client.openCalls.isEmpty)
        #expect(stage.count("POST \(StreamStage.path)") == 1)
    }

    @Test func `one that waits survives kills, is sent later, and its answer is to be had`()
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
        try await eventually("it is answered") { client.openCalls.map(\.state) == [.answered] }
        client = try stage.device.launch()
        #expect(client.openCalls.map(\.key) == [stream.key])
        #expect(try await client.result(of: TellLater.self, key: stream.key).output == call.text)
        #expect(client.openCalls.isEmpty)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `one whose answer a kill has taken is sent again, and charged once`() async throws {
        var client = try await stage.launch()
        var faults = FaultyNetwork.Faults()
        faults.answerLoss = 1
        stage.network.faults = faults
        let call = TellLater(parts: 2)
        let lost = Task { [client] in try await client.result(of: call) }
        try await eventually("it is charged") { stage.authority.balance().available == 97 }
        try stage.device.kill()
        await #expect(throws: SanguineError.self) { try await lost.finished() }
        stage.network.faults = .none
        client = try stage.device.launch()
        try await eventually("it is answered") { client.openCalls.map(\.state) == [.answered] }
        let key = try #require(client.openCalls.first?.key)
        #expect(try await client.stream(of: TellLater.self, key: key).rest() == call.text)
        #expect(try await stage.isSettled(client, available: 97))
    }

    @Test func `one that is refused later says why to whoever asks`() async throws {
        var client = try await stage.launch()
        goOffline()
        let key = try client.stream(TellLater(parts: 1)).key
        client = try stage.device.launch()
        stage.authority.setBalance(1)
        goOnline()
        try await eventually("it has failed") { client.openCalls.first?.hasEnded == true }
        client = try stage.device.launch()
        let error = await #expect(throws: SanguineError.self) {
            try await client.result(of: TellLater.self, key: key)
        }
        #expect(error?.code == "insufficient_tokens")
        #expect(client.openCalls.isEmpty)
        #expect(try await stage.isSettled(client, available: 1))
    }

    @Test func `one that waits can be cancelled, and is never sent`() async throws {
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

    @Test func `more than a hundred do not wait`() async throws {
        let client = try await stage.launch()
        stage.authority.grant(1_000)
        goOffline()
        for _ in 1...BalanceLimits.queuedCalls { _ = try client.stream(TellLater(parts: 1)) }
        let error = #expect(throws: SanguineError.self) { try client.stream(TellLater(parts: 1)) }
        #expect(error?.code == "overloaded")
        #expect(client.openCalls.count == BalanceLimits.queuedCalls)
    }

    @Test func `a sign-out ends what waits`() async throws {
        let client = try await stage.launch()
        goOffline()
        let stream = try client.stream(TellLater(parts: 1))
        await client.signOut()
        await #expect(throws: SanguineError.self) { try await stream.whole() }
        #expect(client.openCalls.isEmpty)
        goOnline()
        try await client.waitUntilIdle()
        #expect(stage.count("POST \(StreamStage.path)") == 0)
    }
}
