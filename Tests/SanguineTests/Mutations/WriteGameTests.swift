import TestSupport
import Testing

@testable import Sanguine

@Suite("Write game", .bounded(.seconds(120)))
struct WriteGameTests {
    @Test(arguments: Fuzz.seeds(1...60))
    func `own writes are never duplicated or lost`(seed: UInt64) async throws {
        do {
            try await WriteGame(seed: seed).play(steps: Fuzz.events(60))
        } catch {
            Issue.record(error, Fuzz.replay(Self.self, seed: seed))
        }
    }
}
