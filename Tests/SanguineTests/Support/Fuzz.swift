import Foundation
import Testing

/// From which seeds the fuzzers play, and for how long: all of them alike.
///
/// `SANGUINE_FUZZ_SEED` plays that seed alone; `SANGUINE_FUZZ_EVENTS` sets the events of each seed,
/// `SANGUINE_FUZZ_LIMIT` only how many it plays at most.
enum Fuzz {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seed = environment["SANGUINE_FUZZ_SEED"].flatMap(UInt64.init)
    private static let events = environment["SANGUINE_FUZZ_EVENTS"].flatMap(Int.init)
    private static let limit = environment["SANGUINE_FUZZ_LIMIT"].flatMap(Int.init)

    /// The seeds to play: those of the test, or the one that is to be replayed.
    static func seeds(_ standard: ClosedRange<UInt64>) -> [UInt64] {
        seed.map { [$0] } ?? Array(standard)
    }

    /// How many events each seed plays.
    static func events(_ standard: Int) -> Int {
        max(1, events ?? min(standard, limit ?? standard))
    }

    /// What a failure says: the seed, and the command that replays it.
    static func replay(_ suite: Any.Type, seed: UInt64, _ fault: String = "") -> Comment {
        let length =
            events.map { "SANGUINE_FUZZ_EVENTS=\($0) " }
            ?? limit.map { "SANGUINE_FUZZ_LIMIT=\($0) " } ?? ""
        return """
            Seed \(seed)\(fault.isEmpty ? "" : ", ")\(fault). Replay it with
            SANGUINE_FUZZ_SEED=\(seed) \(length)swift test --filter \(suite)
            """
    }
}
