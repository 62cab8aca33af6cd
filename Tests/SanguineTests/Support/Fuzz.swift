import Foundation
import Testing

/// The seeds that all fuzzers play and the number of events for each.
///
/// `SANGUINE_FUZZ_SEED` plays only that seed; `SANGUINE_FUZZ_EVENTS` sets the number of events for
/// each seed, and `SANGUINE_FUZZ_LIMIT` only their maximum.
enum Fuzz {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seed = environment["SANGUINE_FUZZ_SEED"].flatMap(UInt64.init)
    private static let events = environment["SANGUINE_FUZZ_EVENTS"].flatMap(Int.init)
    private static let limit = environment["SANGUINE_FUZZ_LIMIT"].flatMap(Int.init)

    /// Returns the seeds to play: those of the test, or the one to replay.
    static func seeds(_ standard: ClosedRange<UInt64>) -> [UInt64] {
        seed.map { [$0] } ?? Array(standard)
    }

    /// Returns the number of events for each seed.
    static func events(_ standard: Int) -> Int {
        max(1, events ?? min(standard, limit ?? standard))
    }

    /// Returns a failure message with the seed and the command that replays it.
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
