import ArgumentParser
import Foundation
import Sanguine
import Simulation

/// Plays many seeds, on all cores, and prints those that fail.
@main
struct Simulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Simulate devices, an authority and the faults between them.",
        discussion: """
            Everything follows from the seed: a failure names it, and playing that seed alone \
            shows it again. Exits with 1 if a guarantee was broken, and with a planted bug or \
            fault if none was.
            """
    )

    @Option(help: "The seeds, as first..last or a single one.")
    var seeds = "1..1000"

    @Option(
        help: """
            The number of events for each seed, before the faults end. Default: 150; 400 for \
            clients, whose jobs count as events.
            """
    )
    var events: Int?

    @Option(help: "A bug to plant in the devices: \(names(of: PlantedBug.allCases)).")
    var bug: PlantedBug?

    @Flag(help: "Simulate users who share a device, with the real client, one game at a time.")
    var users = false

    @Flag(help: "Simulate real clients with real files, their jobs ordered by the seed.")
    var clients = false

    @Flag(help: "Play only games of threads; needs --clients.")
    var threads = false

    @Flag(help: "Play commands of the ledger against a model that counts single tokens.")
    var ledger = false

    @Option(help: "The number of commands of the ledger; the seeds then follow from it.")
    var cases: Int?

    @Flag(help: "Play the ledger in SQLite instead of in memory.")
    var sqlite = false

    @Option(
        help: """
            A fault to plant in the real clients. With --clients: \
            \(names(of: PlantedFault.ofClients)). With --users: \(names(of: usersFaults)).
            """
    )
    var fault: PlantedFault?

    @Flag(help: "Print a hash of each seed's trace, the same in each run; needs --clients.")
    var traces = false

    @Option(
        help: """
            The authority that answers the devices: real, a model of the contract, or both, \
            compared. Default: real.
            """
    )
    var authority: AuthorityKind?

    /// Refuses options that the game does not support.
    func validate() throws {
        _ = try parsedSeeds()
        if let events, events < 1 {
            throw ValidationError("--events \(events) simulates nothing: pass 1 or more.")
        }
        if ledger {
            let isMixed = users || clients || threads || traces
            if isMixed || bug != nil || fault != nil || authority != nil {
                throw ValidationError("Play --ledger alone, with --seeds, --cases or --sqlite.")
            }
            if let cases, cases < 1 {
                throw ValidationError("--cases \(cases) plays nothing: pass 1 or more.")
            }
            return
        }
        if cases != nil || sqlite {
            throw ValidationError("--cases and --sqlite are for the ledger: add --ledger.")
        }
        if users, clients {
            throw ValidationError("Play one game at a time: with --users or with --clients.")
        }
        if users || clients, bug != nil || authority != nil {
            throw ValidationError(
                "--bug and --authority are for devices: leave out --users and --clients."
            )
        }
        if traces, !clients {
            throw ValidationError("Only a game of --clients prints --traces: add --clients.")
        }
        if threads, !clients {
            throw ValidationError("Only clients have --threads: add --clients.")
        }
        if let fault { try validate(fault) }
    }

    private func validate(_ fault: PlantedFault) throws {
        if clients {
            guard PlantedFault.ofClients.contains(fault) else {
                throw ValidationError(
                    "The game of --clients cannot show \(fault.rawValue): play --users."
                )
            }
            return
        }
        guard users else {
            throw ValidationError("Add --clients or --users to --fault, or plant a --bug.")
        }
        guard Self.usersFaults.contains(fault) else {
            throw ValidationError(
                """
                The game of --users cannot show \(fault.rawValue), but \
                \(Self.names(of: Self.usersFaults)): plant one of these, or play --clients.
                """
            )
        }
    }

    func run() async throws {
        let range = try parsedSeeds()
        if ledger { throw ExitCode(try await ledgerGames(range).play()) }
        let clock = ContinuousClock()
        let start = clock.now
        if users { return try await playUsers(range) }
        if clients {
            let games = ClientGames(
                seeds: range,
                events: events ?? 400,
                fault: fault,
                threads: threads,
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
        if isBlind { print("A turn never happened, so the run proves nothing about it.") }
        if !violations.isEmpty || isBlind { throw ExitCode.failure }
    }

    private func ledgerGames(_ seeds: ClosedRange<UInt64>) -> LedgerGames {
        let commands = events ?? LedgerGames.commands
        let games = cases.map { ($0 + commands - 1) / commands }
        let last = games.map { seeds.lowerBound + UInt64($0) - 1 }
        return LedgerGames(
            seeds: seeds.lowerBound...(last ?? seeds.upperBound),
            commands: commands,
            isInSQLite: sqlite
        )
    }

    /// The faults that one of the two games of users can show.
    private static let usersFaults =
        PlantedFault.ofUsers + PlantedFault.ofAccounts.filter { !PlantedFault.ofUsers.contains($0) }

    /// Plays each seed of the game of users, and of the game of accounts.
    private func playUsers(_ seeds: ClosedRange<UInt64>) async throws {
        let clock = ContinuousClock()
        let start = clock.now
        var (played, failed) = (0, 0)
        var tally: UserGameTally = [:]
        var accounts: AccountGameTally = [:]
        for seed in seeds where failed < (fault == nil ? 10 : 1) {
            var leaks: [UserLeak] = []
            if fault.map(PlantedFault.ofUsers.contains) ?? true {
                let (leak, turns) = await userLeak(seed: seed, steps: events ?? 150, fault: fault)
                tally.merge(turns, uniquingKeysWith: +)
                if let leak { leaks.append(leak) }
            }
            if fault.map(PlantedFault.ofAccounts.contains) ?? true {
                let steps = events ?? 150
                let (leak, turns) = await accountLeak(seed: seed, steps: steps, fault: fault)
                accounts.merge(turns, uniquingKeysWith: +)
                if let leak { leaks.append(leak) }
            }
            played += 1
            for leak in leaks { print(leak) }
            failed += leaks.isEmpty ? 0 : 1
            guard played.isMultiple(of: 500) || !leaks.isEmpty else { continue }
            print("\(played) seeds, \(failed) failed, \(since(start, clock)) s")
            fflush(nil)
        }
        print("\(played) seeds, \(failed) failed, \(since(start, clock)) s")
        guard fault == nil else {
            if failed == 0 { throw ExitCode.failure }
            return
        }
        for turn in UserGameTurn.allCases { print("\(tally[turn] ?? 0) \(turn.rawValue)") }
        for turn in AccountGameTurn.allCases { print("\(accounts[turn] ?? 0) \(turn.rawValue)") }
        // Few seeds may lack a turn by chance.
        let isBlind =
            played >= 100
            && (UserGameTurn.allCases.contains { tally[$0] == nil }
                || AccountGameTurn.allCases.contains { accounts[$0] == nil })
        if isBlind { print("A turn never happened, so the run proves nothing about it.") }
        if failed > 0 || isBlind { throw ExitCode.failure }
    }

    private static func names(of faults: [some RawRepresentable<String>]) -> String {
        faults.map(\.rawValue).joined(separator: ", ")
    }

    private func since(_ start: ContinuousClock.Instant, _ clock: ContinuousClock) -> String {
        String(format: "%.1f", (clock.now - start) / .seconds(1))
    }

    private func parsedSeeds() throws -> ClosedRange<UInt64> {
        let parts = seeds.components(separatedBy: "..").map { UInt64($0) }
        guard parts.count <= 2, let first = parts[0], let last = parts[parts.count - 1],
            first <= last
        else {
            throw ValidationError("Write the seeds as first..last, such as 1..10000.")
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
                authority: authority ?? .real
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
