import Foundation
import HostileUpstream
import NIOHTTP1
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Streams that are cut at any byte and resumed.
    ///
    /// `CUTS=10000` cuts them more often, and `SEED=7` cuts elsewhere.
    @Suite("Interrupted streams", .bounded(.seconds(1_800)))
    struct StreamCutTests {
        private static let cuts = environmentNumber("CUTS", or: 300)
        private static let seed: UInt64 = environmentNumber("SEED", or: 20_263)
        private static let rounds = 4

        @Test func `a stream read in pieces equals the stream read at once, byte for byte`()
            async throws
        {
            let game = StreamCutGame(cuts: Self.cuts, rounds: Self.rounds, seed: Self.seed)
            let seed = Self.seed
            try await TemporaryFolder.with { folder in
                let (played, whole) = try await game.play(folder)
                var (cuts, readings, pieces) = (0, 0, 0)
                for (stream, reference) in zip(played, whole) {
                    let about: Comment = "seed \(seed), \(stream.key)"
                    #expect(reference.ends == 1, about)
                    #expect(reference.ids == reference.events.indices.map { "\($0)" }, about)
                    #expect(stream.foreign.allSatisfy { $0 == 404 }, about)
                    cuts += stream.cuts
                    for reading in stream.readings {
                        if reading.ends > 0 {
                            readings += 1
                            #expect(reading.text == reference.text, about)
                        } else {
                            pieces += 1
                            #expect(reference.text.hasPrefix(reading.text), about)
                        }
                    }
                    let honest = HostileAnswer(to: stream.question).text
                    if let output = reference.end?["output"]?.string {
                        #expect(output == honest && reference.answer == honest, about)
                    } else {
                        // Its server was stopped.
                        #expect(reference.end?["code"] == "interrupted", about)
                        #expect(honest.hasPrefix(reference.answer), about)
                    }
                }
                let ended = whole.count { $0.end?["output"] != nil }
                #expect((whole.count / 2..<whole.count).contains(ended), "seed \(seed)")
                #expect(cuts >= Self.cuts && readings > 0, "seed \(seed)")
                print(
                    """
                    cuts (seed \(seed)): \(cuts) in \(whole.count) streams, \(ended) of them made \
                    to the end; \(readings) readings whole and \(pieces) begun, all equal
                    """
                )
                let verified = try await Tool.run("ledger", "verify", "--data", folder.path)
                #expect(verified.status == 0, "seed \(seed): \(verified.output)")
            }
        }
    }
}
