import Foundation
import TestSupport
import Testing

/// The command that plays the games.
@Suite("Simulate", .bounded(.seconds(60)))
struct SimulateTests {
    @Test(
        arguments: [
            ("--users --fault losesSendingMark", "cannot show losesSendingMark"),
            ("--fault keepsFolder", "Add --clients or --users"),
            ("--users --bug ignoresEpochs", "leave out --users"),
            ("--clients --authority both", "leave out --users and --clients"),
            ("--users --traces", "Only a game of --clients"),
            ("--users --clients", "one game at a time"),
            ("--ledger --users", "Play --ledger alone"),
            ("--cases 5", "add --ledger"),
            ("--ledger --cases 0", "1 or more"),
            ("--seeds 1..many", "first..last"),
            ("--seeds 1..2..3", "first..last"),
            ("--events 0", "1 or more"),
        ]
    )
    func `an option that a game does not support is refused`(
        line: String,
        reason: String
    ) async throws {
        let played = try await Player.run(line.components(separatedBy: " "))
        #expect(played.status == 64)
        #expect(played.output.contains(reason), "\(played.output)")
    }

    @Test func `a planted fault that no game of users finds is a failure`() async throws {
        let line = "--users --fault takesOverAnybodys --seeds 1 --events 1"
        let played = try await Player.run(line.components(separatedBy: " "))
        #expect(played.status == 1)
        #expect(played.output.contains("1 seeds, 0 failed"), "\(played.output)")
    }
}
