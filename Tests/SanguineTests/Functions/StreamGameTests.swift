import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Streams over a network that breaks at any byte, in an app that is killed at any time.
@Suite("Stream simulation", .bounded(.seconds(300)))
struct StreamGameTests {
    private static let calls = Fuzz.events(60)

    /// A call of the game, and the text read from it.
    private struct Played {
        let call: Tell
        let key: String
        var text = ""
        var isDone = false
    }

    @Test(arguments: Fuzz.seeds(1...5))
    func `every text is complete, and every key is charged once`(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let stage = StreamStage(seed: seed)
        stage.authority.setBalance(100_000)
        var faults = FaultyNetwork.Faults()
        faults.streamBreak = 0.25
        faults.answerLoss = 0.05
        faults.requestLoss = 0.05
        stage.network.faults = faults
        var client = try stage.device.launch()
        var kills = 0
        var keys: Set<String> = []
        var lastError: SanguineError?
        for number in 0..<Self.calls {
            let call = Tell(
                seed: .random(in: 0..<1_000_000, using: &random),
                parts: .random(in: 0...40, using: &random)
            )
            var played: Played?
            while played?.isDone != true {
                let patience = Int.random(in: 0...80, using: &random)
                do {
                    try await Self.play(call, &played, &keys, on: client, upTo: patience)
                } catch let error as SanguineError {
                    // The call is given up for now: its key finds it again unless the call never
                    // arrived.
                    if error.code == ProblemCode.notFound.rawValue { played = nil }
                    lastError = error
                }
                let text = played?.text ?? ""
                try #require(call.text.utf8.starts(with: text.utf8), "\(text) \(stage.network)")
                if Int.random(in: 0..<3, using: &random) == 0 {
                    kills += 1
                    client = try stage.device.launch()
                }
            }
            let done = try #require(played)
            guard Data(done.text.utf8) == Data(call.text.utf8) else {
                let fault = "call \(number): '\(done.text)' is not '\(call.text)'"
                Issue.record(Fuzz.replay(Self.self, seed: seed, "\(fault) \(stage.network)"))
                return
            }
        }
        stage.network.faults = .none
        let cuts = stage.network.count(of: .streamBroken)
        #expect(cuts > 4 * Self.calls && kills > Self.calls / 10, "\(cuts) cuts, \(kills) kills")
        // A call that seemed lost may have arrived late, which the server knows.
        var arrived = 0
        for key in keys {
            let result = try? await client.result(of: Tell.self, key: key)
            if result != nil { arrived += 1 }
        }
        let charged = 100_000 - stage.authority.balance().available
        let replay = Fuzz.replay(
            Self.self,
            seed: seed,
            "\(arrived) calls, \(charged) tokens, \(lastError.debugDescription)"
        )
        #expect(charged == 3 * Int64(arrived) && arrived >= Self.calls, replay)
        #expect(try await stage.isSettled(client, available: 100_000 - charged), replay)
    }

    /// Reads some parts of a new call, or of a call that is found again.
    private static func play(
        _ call: Tell,
        _ played: inout Played?,
        _ keys: inout Set<String>,
        on client: SanguineClient,
        upTo parts: Int
    ) async throws {
        let stream: FunctionStream<String>
        if let key = played?.key {
            stream = try client.stream(of: Tell.self, key: key)
        } else {
            stream = try client.stream(call)
        }
        keys.insert(stream.key)
        // From the first part on, the call can be found again.
        played = Played(call: call, key: stream.key)
        var iterator = stream.makeAsyncIterator()
        for _ in 0..<parts {
            guard let part = try await iterator.next() else {
                played?.isDone = try await stream.whole().output == call.text
                return
            }
            played?.text += part
        }
    }
}
