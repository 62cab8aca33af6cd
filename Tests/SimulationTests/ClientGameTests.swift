import Sanguine
import Simulation
import TestSupport
import Testing

/// Real clients with all their jobs in an order that follows from a seed, see ``ClientGame``.
///
/// Each game has its own process, since it takes over all jobs of the process.
@Suite("Client game", .bounded(.seconds(240)))
struct ClientGameTests {
    @Test(arguments: [1...20, 21...40] as [ClosedRange<UInt64>])
    func `real clients keep the guarantees under all faults`(
        seeds: ClosedRange<UInt64>
    ) async throws {
        let played = try await Player.playClients(seeds)
        #expect(played.status == 0, "\(played.output)")
    }

    @Test func `real clients keep the guarantees of threads under all faults`() async throws {
        let played = try await Player.playClients(1...20, "--threads")
        #expect(played.status == 0, "\(played.output)")
    }

    @Test func `a seed of threads plays the same each time`() async throws {
        let first = try await Player.playClients(1...4, "--threads", "--traces")
        let second = try await Player.playClients(1...4, "--threads", "--traces")
        #expect(first.output.split(separator: "\n").count == 4)
        #expect(first.output == second.output)
    }

    // The rarest is found in about one seed of 26; the seeds change with every change of the code.
    @Test(arguments: PlantedFault.ofClients)
    func `a planted fault is found within 150 seeds`(fault: PlantedFault) async throws {
        let played = try await Player.playClients(1...150, "--fault", fault.rawValue)
        #expect(played.status == 0, "No seed shows \(fault.rawValue): the game is blind to it.")
        #expect(played.output.contains(#/seed \d+, step \d+: /#))
    }

    @Test func `a fault that is planted in threads is found by a game of threads`() async throws {
        let fault = PlantedFault.showsQuestionsTwice.rawValue
        let played = try await Player.playClients(1...20, "--threads", "--fault", fault)
        #expect(played.status == 0, "No seed shows \(fault): the game of threads is blind to it.")
        #expect(played.output.contains(#/seed \d+, step \d+: .*twice/#), "\(played.output)")
    }

    @Test func `a crash names its seed and step`() async throws {
        let fault = PlantedFault.keepsLookAlike.rawValue
        let played = try await Player.playClients(1...150, "--fault", fault)
        #expect(played.output.contains(#/seed \d+, step \d+: the process crashed/#))
    }

    @Test func `a seed plays the same each time`() async throws {
        // One of them has a long feed.
        let first = try await Player.playClients(11...16, "--traces")
        let second = try await Player.playClients(11...16, "--traces")
        #expect(first.output.split(separator: "\n").count == 6)
        #expect(first.output == second.output)
    }

    // The game of seed 73 leaves jobs behind when its objects are released.
    @Test func `a seed has the same trace in its own process and after others`() async throws {
        let row = try await Player.playClients(73...76, "--traces")
        var alone = ""
        for seed in 73...76 as ClosedRange<UInt64> {
            alone += try await Player.playClients(seed...seed, "--traces").output
        }
        #expect(row.output.split(separator: "\n").count == 4)
        #expect(row.output == alone)
    }
}
