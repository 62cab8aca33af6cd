import ArgumentParser
import Foundation
import Sanguine
import Simulation

/// Plays games of clients in separate processes, one on each core.
///
/// A game takes all jobs of its process, and its order must not follow from the seeds of hash
/// tables, which differ in each process unless the environment says otherwise.
struct ClientGames {
    private static let isDeterministic = "SWIFT_DETERMINISTIC_HASHING"

    let seeds: ClosedRange<UInt64>
    let events: Int
    let fault: PlantedFault?
    /// Whether all are games of threads.
    let threads: Bool
    /// Whether each seed's trace is printed.
    let traces: Bool

    /// Plays the seeds.
    ///
    /// - Returns: The exit status: 1 if a guarantee was broken, or none was with a planted fault.
    func play() throws -> Int32 {
        if ProcessInfo.processInfo.environment[Self.isDeterministic] == nil { return try share() }
        CrashReport.begin(isFinding: fault != nil)
        try JobQueue.takeOver()
        // The main thread only waits, because its jobs are not scheduled by the seed.
        Thread.detachNewThread { exit(playAll()) }
        while true { sleep(1_000) }  // tidy: allow sleeping-test: the player ends the process.
    }

    // MARK: - Sharing

    /// Has other processes play a part of the seeds each.
    private func share() throws -> Int32 {
        let cores = fault == nil && !traces ? ProcessInfo.processInfo.activeProcessorCount : 1
        let (count, parts) = (UInt64(seeds.count), UInt64(min(cores, seeds.count)))
        let players = try (0..<parts).map { part in
            let first = seeds.lowerBound + count * part / parts
            let last = seeds.lowerBound + count * (part + 1) / parts - 1
            return try player(first...last)
        }
        for player in players {
            player.waitUntilExit()  // tidy: allow unbounded-wait: its seeds are finite.
        }
        return players.contains { $0.terminationStatus != 0 } ? 1 : 0
    }

    private func player(_ seeds: ClosedRange<UInt64>) throws -> Process {
        let process = Process()
        process.executableURL = Bundle.main.executableURL
        process.arguments =
            [
                "--clients", "--seeds", "\(seeds.lowerBound)..\(seeds.upperBound)",
                "--events", "\(events)",
            ] + (traces ? ["--traces"] : []) + (threads ? ["--threads"] : [])
            + (fault.map { ["--fault", $0.rawValue] } ?? [])
        process.environment = ProcessInfo.processInfo.environment
            .merging([Self.isDeterministic: "1"]) { $1 }
        try process.run()
        return process
    }

    // MARK: - Playing

    private func playAll() -> Int32 {
        let clock = ContinuousClock()
        let start = clock.now
        let folder = Self.folder.appending(path: "sanguine-clients-\(getpid())")
        defer { try? FileManager.default.removeItem(at: folder) }
        var (played, failed, jobs) = (0, 0, 0)
        var tally: [ClientGameTurn: Int] = [:]
        for seed in seeds where failed < (fault == nil ? 10 : 1) {
            played += 1
            do {
                let game = try ClientGame(
                    seed: seed,
                    fault: fault,
                    hasThreads: threads,
                    folder: folder
                )
                let result = game.play(events: events)
                jobs += result.jobs
                tally.merge(result.tally, uniquingKeysWith: +)
                if traces { print("\(seed) \(String(result.trace, radix: 16))") }
                guard let finding = result.finding else { continue }
                print(finding)
            } catch {
                print("seed \(seed): the game could not begin: \(error)")
            }
            failed += 1
            fflush(nil)
        }
        let time = String(format: "%.1f", (clock.now - start) / .seconds(1))
        if !traces {
            print("clients: \(played) seeds, \(failed) failed, \(jobs) jobs, \(time) s")
            for turn in ClientGameTurn.allCases { print("\(tally[turn] ?? 0) \(turn.rawValue)") }
        }
        // Few seeds may lack a turn by chance.
        let turns = ClientGameTurn.allCases.filter { turn in
            !(threads && ClientGameTurn.notInThreads.contains(turn))
        }
        let isBlind = played >= 100 && turns.contains { tally[$0] == nil }
        if isBlind { print("A turn never happened, so the run proves nothing about it.") }
        fflush(nil)
        guard fault == nil else { return failed > 0 ? 0 : 1 }
        return failed > 0 || isBlind ? 1 : 0
    }

    /// In memory, where the system has such a folder: the files are real, without waits for a disk.
    private static var folder: URL {
        let memory = URL(filePath: "/dev/shm")
        let isThere = FileManager.default.isWritableFile(atPath: memory.path)
        return isThere ? memory : FileManager.default.temporaryDirectory
    }
}
