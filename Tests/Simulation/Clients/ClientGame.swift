package import Foundation
package import Sanguine
import SanguineModel
import SanguineTesting

/// A violation that the game of clients found.
package struct ClientGameFinding: Error, CustomStringConvertible {
    package let seed: UInt64
    package let step: Int
    package let detail: String
    let trace: [String]

    package var description: String {
        """
        seed \(seed), step \(step): \(detail)
        The last steps: \(trace.joined(separator: "; "))
        Replay it with: make simulate SEEDS=1..1 CLIENT_SEEDS=\(seed)..\(seed)
        """
    }
}

/// The events that make a game of clients meaningful: if one never happens, nothing is proven.
package enum ClientGameTurn: String, CaseIterable, Sendable {
    case death = "kills between two jobs"
    case deathWithin = "kills within a job"
    case reopening = "clients closed and opened again"
    case signOut = "sign-outs"
    case leftBehind = "sign-outs with operations left behind"
    case loss = "messages lost"
    case late = "requests that arrived after their caller had cancelled"
    case double = "requests that arrived twice"
    case refusal = "operations refused"
    case discard = "operations discarded"
    case withdrawal = "operations withdrawn"
    case superseded = "operations superseded"
    case board = "mutations applied by the app's own backend"
    case record = "operations applied by the authority"
    case call = "metered calls"
    case live = "live connections"
    case long = "long feeds"
    case threadCall = "calls in threads"
    case streamCut = "streams cancelled in threads"
    case threadChange = "threads renamed or moved to another area"
    case threadDeletion = "threads deleted"
    case serverDeath = "connections broken by the server"
    case upgrade = "apps launched in a newer version"
    case downgrade = "apps launched in an older version"
    case otherVersion = "operations made by another version"
    case deferred = "operations that the authority did not know yet"
    case shared = "records whose members two devices changed"
    case restore = "copies restored"
    case sentAgain = "operations applied again after a restore"
    case forgotten = "settled operations lost with a history"

    /// The events that never happen in a game of threads.
    package static let notInThreads: Set<Self> = [.long, .restore, .sentAgain, .forgotten]
}

/// The result of a game.
package struct ClientGameResult: Sendable {
    /// The violation found, or `nil` if all guarantees held.
    package var finding: ClientGameFinding?
    /// A hash that is the same for the same seed on every machine.
    package var trace: UInt64
    package var jobs: Int
    package var tally: [ClientGameTurn: Int]
}

/// Real clients over real files, with all their jobs in an order that follows from a seed.
///
/// In one game out of three, only the list is written and read. In some others, one event out of
/// four is one of threads, see ``ClientGameThreads``.
///
/// One to three devices of two people read, write, call, discard, sign out and return; processes
/// die between two jobs or within one; messages are lost, duplicated and delayed; records, values,
/// lists and balances change elsewhere; the app is launched in another version; and the authority's
/// data is restored from an older copy. The game checks everything that the public API shows after
/// each job, and every byte of the folder after a sign-out and a launch.
///
/// Played by one thread, which must have taken over all jobs, see ``JobQueue/takeOver()``.
package final class ClientGame {
    let seed: UInt64
    var random: SplitMix64
    let network: ClientGameNetwork
    let wall = ManualWallClock()
    let delay = ManualClock()
    let world: ClientGameProcess.World
    let root: URL
    /// The number of rows in a page of the list.
    let size: Int
    /// The number of rows that the list has initially.
    let rows: Int
    /// Whether only the list is written and read.
    let isOnList: Bool
    /// Whether there are calls in threads.
    let isOnThreads: Bool
    private(set) lazy var threads = ClientGameThreads(self)
    var devices: [ClientGameDevice] = []
    var deeds: [Deed] = []
    var step = 0 { didSet { CrashReport.note(seed: seed, step: step) } }
    var jobs = 0
    var processes = 0
    var tally: [ClientGameTurn: Int] = [:]
    /// The latest copy of the authority's data, and the people who had an account then.
    var copy: (data: InMemoryAuthority.Copy, people: [Identifier: Person])?
    /// The number of restores before each call was made.
    var restores: [String: Int] = [:]
    /// The calls whose answer has arrived, by input.
    let answered = WatchedCalls()
    private var lines: [String] = []
    private var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    /// - Parameters:
    ///   - seed: The seed that determines the game.
    ///   - fault: A fault to plant in the client. Default: none.
    ///   - hasThreads: Whether it is a game of threads for every seed. Default: no.
    ///   - folder: The folder for its files, in a subfolder named after the seed.
    /// - Throws: An error of a client or the system.
    package init(
        seed: UInt64,
        fault: PlantedFault? = nil,
        hasThreads: Bool = false,
        folder: URL
    ) throws {
        self.seed = seed
        CrashReport.note(seed: seed, step: 0)
        // The previous game's objects were released after its end, and streams that end with them
        // resume tasks: their jobs would change the order of this game's jobs.
        JobQueue.shared.drain()
        GameCode.spare()
        random = SplitMix64(seed: seed)
        // A long feed is restored in ranges. This is rare, because it takes time.
        let isLong = !hasThreads && seed.isMultiple(of: 16)
        isOnList = !hasThreads && seed.isMultiple(of: 3)
        isOnThreads = hasThreads || !isOnList && !isLong && seed % 5 < 2
        size = Int.random(in: 1...7, using: &random)
        rows = Int.random(in: 0...4 * size, using: &random)
        network = ClientGameNetwork(
            seed: seed,
            clock: wall,
            delay: delay,
            rows: rows,
            isLong: isLong
        )
        world = .init(network: network, wall: wall, delay: delay, fault: fault)
        root = folder.appending(path: "game-\(seed)")
        try? FileManager.default.removeItem(at: root)
        if isLong { tally[.long] = 1 }
        network.isOld = chance(3)
        for number in 0..<Int.random(in: 1...3, using: &random) {
            network.setHolder(number == 2 ? .bob : .ada, of: number)
            let folder = root.appending(path: "device-\(number)")
            devices.append(.init(number: number, process: try launch(number, in: folder)))
        }
    }

    /// Plays the seed.
    ///
    /// - Parameter events: The number of steps before all work is finished.
    /// - Returns: The result of the game.
    package func play(events: Int) -> ClientGameResult {
        var finding: ClientGameFinding?
        do {
            for _ in 0..<events { try turn() }
            try rest()
        } catch let found as ClientGameFinding {
            finding = found
        } catch {
            finding = self.finding("the game itself failed: \(error)")
        }
        if network.deferrals > 0 { tally[.deferred] = network.deferrals }
        for device in devices { device.process.end() }
        // The remaining jobs of the closed clients no longer belong to the game.
        JobQueue.shared.drain()
        try? FileManager.default.removeItem(at: root)
        return ClientGameResult(finding: finding, trace: hash, jobs: jobs, tally: tally)
    }

    /// Plays one step: a job or an event.
    private func turn() throws {
        step += 1
        if JobQueue.shared.count > 0, !chance(4) {
            try runJob()
        } else {
            try event()
        }
        try buryTheDead()
        try check()
    }

    /// Runs a randomly chosen job.
    func runJob() throws {
        let count = JobQueue.shared.count
        let index = Int.random(in: 0..<count, using: &random)
        jobs += 1
        note("job \(index) of \(count)", isQuiet: true)
        GameCode.job { JobQueue.shared.run(index) }
    }

    // MARK: - Devices

    func launch(_ device: Int, in folder: URL) throws -> ClientGameProcess {
        processes += 1
        let process = try ClientGameProcess(
            world,
            device: device,
            number: processes,
            folder: folder,
            seed: seed,
            isOnline: !chance(4),
            isNew: chance(2)
        )
        if chance(2) { process.follow() }
        return process
    }

    /// Launches the app again where a process has died or was closed during a job.
    func buryTheDead() throws {
        for index in devices.indices {
            if devices[index].process.isClosedWithin.isSet {
                note("device \(index) was closed within a job")
                try reopen(index)
                devices[index].process.connectivity.connect()
                continue
            }
            guard let remains = devices[index].process.remains else { continue }
            let dead = devices[index].process
            dead.end()
            try launchAgain(index, from: remains.get())
            try findOut(index)
            try check(index, isLaunched: true)
            try checkFiles(index)
        }
    }

    /// Closes the app and launches it again.
    func reopen(_ index: Int) throws {
        let process = devices[index].process
        process.close()
        guard process.remains == nil else { return }
        count(.reopening)
        try launchAgain(index, from: process.folder)
        try check(index, isLaunched: true)
        try checkFiles(index)
    }

    private func launchAgain(_ index: Int, from remains: URL) throws {
        let folder = root.appending(path: "device-\(index)-\(processes + 1)")
        // A client without persistent data has created no folder.
        if FileManager.default.fileExists(atPath: remains.path) {
            try FileManager.default.moveItem(at: remains, to: folder)
        }
        devices[index].leaving = nil
        let wasNew = devices[index].process.isNew
        devices[index].process = try launch(index, in: folder)
        let isNew = devices[index].process.isNew
        note("device \(index) is launched again\(isNew == wasNew ? "" : " in another version")")
        guard isNew != wasNew else { return }
        count(isNew ? .upgrade : .downgrade)
        let names = [MarkTally.name, DeepenTally.name]
        for operation in view(index).pending.values where names.contains(operation.name) {
            count(.otherVersion)
        }
    }

    /// Reads from the disk whether deeds survived that were in progress when the process died.
    private func findOut(_ index: Int) throws {
        let view = view(index)
        for place in devices[index].deeds where deeds[place].isUncertain {
            guard deeds[place].person == view.person else { continue }
            deeds[place].isUncertain = false
            let ids = [deeds[place].id, deeds[place].otherId].compactMap { $0 }
            deeds[place].otherId = nil
            guard let id = ids.first(where: { view.pending[$0] != nil || view.refused[$0] != nil })
            else {
                deeds[place].isDiscarded = true
                devices[index].stay.deeds.remove(place)
                continue
            }
            deeds[place].id = id
            deeds[place].isRefused = view.refused[id] != nil
        }
    }

    // MARK: - Randomness and trace

    /// Returns true with a probability of one in `odds`.
    func chance(_ odds: Int) -> Bool { Int.random(in: 0..<odds, using: &random) == 0 }

    func count(_ turn: ClientGameTurn) { tally[turn, default: 0] += 1 }

    /// Adds a line to the trace.
    ///
    /// - Parameters:
    ///   - line: The line.
    ///   - isQuiet: Whether the line is too unimportant to be printed.
    func note(_ line: @autoclosure () -> String, isQuiet: Bool = false) {
        let line = line()
        for byte in line.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        guard !isQuiet else { return }
        lines.append("\(step): \(line)")
        if lines.count > 80 { lines.removeFirst(40) }
    }

    func finding(_ detail: String) -> ClientGameFinding {
        ClientGameFinding(seed: seed, step: step, detail: detail, trace: lines.suffix(30))
    }
}
