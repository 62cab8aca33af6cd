import ArgumentParser
import Foundation
import Sanguine
import Simulation

/// Plays many seeds, on all cores, and prints those that fail.
@main
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Play devices, an authority and all that goes wrong between them.",
        discussion: """
            Everything follows from the seed: a failure names it, and playing that seed alone \
            shows it again. Exits with 1 if a guarantee was broken, and with a planted bug if \
            none was.
            """
    )

    @Option(help: "The seeds, as first..last or a single one.")
    var seeds = "1..1000"

    @Option(
        help: """
            How many events are played for each seed, before all comes to rest. Default: 150; 400 \
            for clients, whose jobs count as events.
            """
    )
    var events: Int?

    @Option(help: "A bug to plant: \(PlantedBug.allCases.map(\.rawValue).joined(separator: ", ")).")
    var bug: PlantedBug?

    @Flag(help: "Play people who hand a device on, with the real client, one game at a time.")
    var users = false

    @Flag(help: "Play real clients over real files, all their jobs in the order of the seed.")
    var clients = false

    @Option(
        help: """
            A fault to plant in the clients: \
            \(PlantedFault.allCases.map(\.rawValue).joined(separator: ", ")).
            """
    )
    var fault: PlantedFault?

    @Flag(help: "Print what each seed of the clients comes to: the same in each play.")
    var traces = false

    @Option(help: "Which authority answers: real, a model of the contract, or both, compared.")
    var authority = AuthorityKind.real

    func run() async throws {
        let range = try parsedSeeds()
        let clock = ContinuousClock()
        let start = clock.now
        if users { return try await playUsers(range) }
        if clients {
            let games = ClientGames(
                seeds: range,
                events: events ?? 400,
                fault: fault,
                traces: traces
            )
            throw ExitCode(try games.play())
        }
        let (violations, tally) = await play(range)
        for violation in violations.prefix(10) { print(violation) }
        let all = range.count.formatted(.number.grouping(.never))
        print("\(all) seeds, \(violations.count) failed, \(since(start, clock)) s")
        guard bug == nil else {
            if violations.isEmpty { throw ExitCode.failure }
            return
        }
        for turn in WorldTurn.allCases { print("\(tally[turn] ?? 0) \(turn.rawValue)") }
        // Few seeds may lack a turn by chance.
        let isBlind = range.count >= 100 && WorldTurn.allCases.contains { tally[$0] == nil }
        if isBlind { print("A turn never happened: this proves nothing about it.") }
        if !violations.isEmpty || isBlind { throw ExitCode.failure }
    }

    private func playUsers(_ seeds: ClosedRange<UInt64>) async throws {
        let clock = ContinuousClock()
        let start = clock.now
        var (played, failed) = (0, 0)
        var tally: UserGameTally = [:]
        for seed in seeds where failed < 10 {
            let (leak, turns) = await userLeak(seed: seed, steps: events ?? 150)
            played += 1
            tally.merge(turns, uniquingKeysWith: +)
            if let leak { print(leak) }
            failed += leak == nil ? 0 : 1
            guard played.isMultiple(of: 500) || leak != nil else { continue }
            print("\(played) seeds, \(failed) failed, \(since(start, clock)) s")
            fflush(nil)
        }
        print("\(played) seeds, \(failed) failed, \(since(start, clock)) s")
        for turn in UserGameTurn.allCases { print("\(tally[turn] ?? 0) \(turn.rawValue)") }
        // Few seeds may lack a turn by chance.
        let isBlind = played >= 100 && UserGameTurn.allCases.contains { tally[$0] == nil }
        if isBlind { print("A turn never happened: this proves nothing about it.") }
        if failed > 0 || isBlind { throw ExitCode.failure }
    }

    private func since(_ start: ContinuousClock.Instant, _ clock: ContinuousClock) -> String {
        String(format: "%.1f", (clock.now - start) / .seconds(1))
    }

    private func parsedSeeds() throws -> ClosedRange<UInt64> {
        let parts = seeds.components(separatedBy: "..").compactMap { UInt64($0) }
        guard let first = parts.first, let last = parts.last, parts.count <= 2, first <= last else {
            throw ValidationError("Give the seeds as first..last, such as 1..10000.")
        }
        return first...last
    }

    private func play(
        _ seeds: ClosedRange<UInt64>
    ) async -> (violations: [Violation], tally: WorldTally) {
        let workers = ProcessInfo.processInfo.activeProcessorCount
        return await withTaskGroup(of: ([Violation], WorldTally).self) { group in
            for worker in 0..<workers {
                group.addTask {
                    let first = seeds.lowerBound + UInt64(worker)
                    return await playSome(
                        stride(from: first, through: seeds.upperBound, by: workers)
                    )
                }
            }
            var (violations, tally) = ([Violation](), WorldTally())
            for await (found, turns) in group {
                violations += found
                tally.merge(turns, uniquingKeysWith: +)
            }
            return (violations.sorted { $0.seed < $1.seed }, tally)
        }
    }

    private func playSome(_ seeds: StrideThrough<UInt64>) async -> ([Violation], WorldTally) {
        var (violations, tally) = ([Violation](), WorldTally())
        for seed in seeds where violations.count < 10 {
            let (found, turns) = await playWorld(
                seed: seed,
                events: events ?? 150,
                bug: bug,
                authority: authority
            )
            if let found { violations.append(found) }
            tally.merge(turns, uniquingKeysWith: +)
        }
        return (violations, tally)
    }
}

extension PlantedBug: ExpressibleByArgument {}
extension PlantedFault: ExpressibleByArgument {}
extension AuthorityKind: ExpressibleByArgument {}
