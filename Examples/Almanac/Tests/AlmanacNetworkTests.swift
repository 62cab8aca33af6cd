import AlmanacApp
import AlmanacModel
import AlmanacSky
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The app with a network that loses, duplicates, delays and breaks off.
@Suite("Almanac on a bad network", .bounded(.seconds(120)))
struct AlmanacNetworkTests {
    @Test(arguments: [UInt64(1), 2, 3])
    func `all over a bad network is right, charged once and stored once`(
        seed: UInt64
    ) async throws {
        try await AlmanacWorld.with { world in
            let delay = ManualClock()
            let network = FaultyNetwork(URLSessionTransport.patient, seed: seed, clock: delay)
            let client = try world.client { ($0.transport, $0.delay) = (network, delay) }
            let screen = await world.screen(client)
            let birth = try AlmanacWorld.birth()
            _ = try await delay.advancing { try await client.value(of: .account) }
            try await screen.setBirth(birth)
            network.faults = .rough
            let questions = ["Will I travel?", "Will I move?"]
            var asked: [AlmanacScreen.Asked] = []
            for question in questions {
                asked.append(try #require(try await screen.ask(question)))
            }
            try await screen.rate(Predict.name, isHelpful: false, comment: "seed \(seed)")
            let keys = asked.map(\.key)
            _ = try await Self.advancing(delay, world.modelClock) {
                // Over this network a question may fail, with an error of the transport.
                for key in keys { _ = await Self.end(of: key, client) }
            }
            network.faults = .none
            try await Self.advancing(delay, world.modelClock) {
                try await eventually("the feedback, \(network)", within: .seconds(30)) {
                    let isPulled = (try? await client.synchronize()) != nil
                    let isSent = client.outbox.summary.unsent == 0
                    return try isPulled && isSent && !world.feedback.isEmpty
                }
            }
            let charged = try await world.modelClock.advancing(within: .seconds(60)) {
                try await world.charges(ofCalls: keys)
            }
            let data = try await delay.advancing {
                try await client.value(of: .astroData(of: birth, in: 2026))
            }
            #expect(data.chart.positions == (try Chart(of: birth)).positions)
            #expect(try world.feedback.map(\.comment) == ["seed \(seed)"], "\(network)")
            try await delay.advancing {
                try await eventually("the balance, \(network)", within: .seconds(30)) {
                    let balance = try? await client.refresh(.balance)
                    return balance?.held == 0 && balance?.available == 100 - charged
                }
            }
            // Each charge is that of a message, on this device as on the server.
            try await delay.advancing {
                try await eventually("the messages, \(network)", within: .seconds(30)) {
                    guard (try? await client.synchronize()) != nil else { return false }
                    let messages = client.threads.list().flatMap {
                        client.threads.messages(of: $0.id)
                    }
                    let isEnded = !messages.contains { $0.phase == .making || $0.phase == .waiting }
                    return isEnded && messages.compactMap(\.charged).reduce(0, +) == charged
                }
            }
            client.close()
        }
    }

    /// Waits for the end of an answer, and returns the error that it may have ended with.
    private static func end(of key: String, _ client: SanguineClient) async -> SanguineError? {
        do throws(SanguineError) {
            _ = try await client.result(of: Predict.self, key: key)
            return nil
        } catch {
            return error
        }
    }

    /// Runs a body while both clocks advance.
    private static func advancing<Value: Sendable>(
        _ first: ManualClock,
        _ second: ManualClock,
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await first.advancing(within: .seconds(60)) {
            try await second.advancing(within: .seconds(60), body)
        }
    }
}
