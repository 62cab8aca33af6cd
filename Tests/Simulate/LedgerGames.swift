import ArgumentParser
import Foundation
import SanguineAuthority
import SanguineSQLite
import Simulation

/// Plays games of the ledger, on all cores in memory or one after the other in SQLite.
struct LedgerGames {
    /// The number of commands of a game without `--events`.
    static let commands = 2_000

    let seeds: ClosedRange<UInt64>
    let commands: Int
    let isInSQLite: Bool

    /// Plays the games, prints the differences, and returns the status of the process.
    func play() async throws -> Int32 {
        let clock = ContinuousClock()
        let start = clock.now
        let (differences, tally) = try await isInSQLite ? playInSQLite() : playInMemory()
        for difference in differences.prefix(10) { print(difference) }
        let all = seeds.count * commands
        let seconds = String(format: "%.1f", (clock.now - start) / .seconds(1))
        print("\(all) commands, \(differences.count) games failed, \(seconds) s")
        let kinds = LedgerTurn.allCases.filter { !isInSQLite || $0 != .death }
        for turn in kinds { print("\(tally[turn] ?? 0) \(turn.rawValue)") }
        // Few commands may lack a turn by chance.
        let isBlind = all >= 10_000 && kinds.contains { tally[$0] == nil }
        if isBlind { print("A turn never happened, so the run proves nothing about it.") }
        return differences.isEmpty && !isBlind ? 0 : 1
    }

    private typealias Played = (differences: [String], tally: [LedgerTurn: Int])

    private func playInMemory() async -> Played {
        let workers = ProcessInfo.processInfo.activeProcessorCount
        return await withTaskGroup(of: Played.self) { group in
            for worker in 0..<workers {
                group.addTask {
                    let first = seeds.lowerBound + UInt64(worker)
                    var played: Played = ([], [:])
                    for seed in stride(from: first, through: seeds.upperBound, by: workers)
                    where played.differences.count < 10 {
                        let storage = MemoryStorage()
                        await play(seed, in: storage, &played)
                        await storage.close()
                    }
                    return played
                }
            }
            return await group.reduce(into: ([], [:])) { all, part in
                all.differences += part.differences
                all.tally.merge(part.tally, uniquingKeysWith: +)
            }
        }
    }

    private func playInSQLite() async throws -> Played {
        var played: Played = ([], [:])
        for seed in seeds where played.differences.count < 10 {
            let folder = FileManager.default.temporaryDirectory
                .appending(path: "simulate-ledger-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: folder) }
            let storage = try SQLiteStorage(folder: folder)
            await play(seed, in: storage, &played)
            await storage.close()
        }
        return played
    }

    private func play(_ seed: UInt64, in storage: any Storage, _ played: inout Played) async {
        var game = LedgerPlay(seed: seed, storage: storage)
        if let difference = await game.play(commands) {
            played.differences.append(
                """
                seed \(seed): \(difference)
                Replay it with: simulate --ledger --seeds \(seed)..\(seed)
                """
            )
        }
        played.tally.merge(game.tally, uniquingKeysWith: +)
    }
}
