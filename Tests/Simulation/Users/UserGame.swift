import Foundation
import Sanguine
import SanguineModel
import SanguineTesting

/// A device that several people share, with the real client, real files and its own server.
///
/// People read, write, turn pages, sign out and return; the process dies; records change on the
/// server. Requests and answers wait and continue in the order of the seed; a change of user pauses
/// between its two halves while others read and pull. The game checks everything that the public
/// API shows after each step, and every byte of the folder after a sign-out and a launch.
///
/// The seed determines the order of requests, answers and changes; the machine determines how far
/// each task gets between two steps, so a failure may need a few replays.
///
/// Used by one task. A class, because the models are on the main actor.
final class UserGame {
    private struct Process {
        let client: SanguineClient
        let pause: UserGamePause
        let folder: URL
        let screen: UserGameScreen
    }

    private let seed: UInt64
    private let fault: PlantedFault?
    private var random: SplitMix64
    private let network: UserGameNetwork
    private let wall = ManualWallClock()
    private let delay = ManualClock()
    private let connectivity = ManualConnectivity()
    private let lifecycle = ManualLifecycle()
    private let root: URL
    private var process: Process
    private var launches = 0
    private var step = 0
    private var writes = 0
    /// The event of each step and the user at the time, for failure messages.
    private var trace: [String] = []
    /// A sign-out that has not returned.
    private var leaving: Task<Void, Never>?
    private var tasks: [Task<Void, Never>] = []
    private(set) var tally: UserGameTally = [:]

    init(seed: UInt64, fault: PlantedFault?) throws {
        self.seed = seed
        self.fault = fault
        random = SplitMix64(seed: seed)
        // A long feed is restored in ranges. This is rare, because it takes time.
        network = UserGameNetwork(notes: seed.isMultiple(of: 16) ? 2_100 : 4)
        root = FileManager.default.temporaryDirectory.appending(path: "sanguine-game-\(UUID())")
        let folder = root.appending(path: "0")
        process = try Self.launch(
            network,
            folder,
            number: 0,
            random: RandomSource(SplitMix64(seed: seed)),
            fault: fault,
            (wall, delay, connectivity, lifecycle)
        )
    }

    /// Ends all processes and removes their files.
    func end() {
        network.setOpen(true)
        process.pause.release()
        for task in tasks { task.cancel() }
        network.cut(upTo: launches)
        process.client.close()
        try? FileManager.default.removeItem(at: root)
    }

    private static func launch(
        _ network: UserGameNetwork,
        _ folder: URL,
        number: Int,
        random: RandomSource,
        fault: PlantedFault?,
        _ world: (ManualWallClock, ManualClock, ManualConnectivity, ManualLifecycle)
    ) throws -> Process {
        let pause = UserGamePause()
        var configuration = SanguineClient.Configuration(server: URL(string: "http://game.test"))
        (configuration.clock, configuration.delay) = (world.0, world.1)
        (configuration.connectivity, configuration.lifecycle) = (world.2, world.3)
        configuration.random = random
        configuration.plantedFault = fault
        configuration.folder = folder
        configuration.transport = UserGameLine(network: network, process: number)
        configuration.schema = .userGame
        configuration.mutations = [LikeCard.self]
        configuration.logger = pause.logger
        let client = try SanguineClient(configuration)
        let screen = UserGameScreen(client)
        return Process(client: client, pause: pause, folder: folder, screen: screen)
    }

    // MARK: - Playing

    func leak(steps: Int) async -> UserLeak? {
        do {
            try await play(steps: steps)
            return nil
        } catch let leak as UserLeak {
            return leak
        } catch {
            return leak("the game itself failed: \(error)")
        }
    }

    private func note(_ turn: UserGameTurn) { tally[turn, default: 0] += 1 }

    private func play(steps: Int) async throws {
        for _ in 0..<steps {
            step += 1
            try await event()
            await letOthersRun()
            try await check()
            // Without an account the files are not checked, because a sign-in may be imminent.
            if step.isMultiple(of: 8), process.client.accountId != nil { try await checkFiles() }
            // The signed-in person holds the device: an expired token signs in no other person.
            if let account = process.client.accountId, let person = network.person(account) {
                network.holder = person
            }
        }
        try await rest()
    }

    /// How far other tasks get during this time is part of the game; this waits for nothing.
    private func letOthersRun() async {
        let time = Duration.microseconds(Int.random(in: 0...2_000, using: &random))
        try? await Task.sleep(for: time)  // tidy: allow sleeping-test: a turn of the game.
    }

    private func event() async throws {
        let client = process.client
        let kind = Int.random(in: 0..<100, using: &random)
        let who = client.accountId.flatMap { network.person($0) }
        trace.append("\(step): \(kind) with \(name(who)), \(network.heldCount) held")
        switch kind {
        case 0..<36: release()
        case 36..<46: read(client)
        case 46..<54: run { try? await client.synchronize() }
        case 54..<62: write(client)
        case 62..<67: turnPages(client)
        case 67..<72: changeOnServer()
        case 72..<78: process.pause.arm()
        case 78..<82: pass()
        case 82..<92: try await changeUser()
        case 92..<94: try await switchUser()
        case 94..<97: try await die()
        default: disturb()
        }
    }

    private func release() {
        let count = network.heldCount
        guard count > 0 else {
            // Only now and then, so that other tasks make progress while the change is paused.
            if Int.random(in: 0..<4, using: &random) == 0 { process.pause.release() }
            return
        }
        let index = Int.random(in: 0..<count, using: &random)
        let isLost = Int.random(in: 0..<12, using: &random) == 0
        if isLost { note(.loss) }
        network.release(index, losing: isLost ? .interrupted("lost") : nil)
    }

    private func run(_ body: @escaping @Sendable () async -> Void) {
        tasks.append(Task { await body() })
        if tasks.count > 64 { tasks.removeFirst(32) }
    }

    private func read(_ client: SanguineClient) {
        let number = Int.random(in: 0...3, using: &random)
        switch Int.random(in: 0..<7, using: &random) {
        case 0: run { _ = try? await client.value(of: .account) }
        case 1: run { _ = try? await client.value(of: .balance) }
        case 2: run { _ = try? await client.value(of: .news) }
        case 3: run { _ = try? await client.refresh(.card(number)) }
        default: run { _ = try? await client.value(of: .card(number)) }
        }
    }

    private func write(_ client: SanguineClient) {
        // Operations without an account belong to the next one, and so may those during a change.
        let mayChange = leaving != nil || process.pause.isArmed
        let account = mayChange ? nil : client.accountId
        let deed = account.flatMap { network.person($0)?.deed } ?? "DEED-OF-NOBODY-"
        writes += 1
        let text = "\(deed)\(writes)"
        switch Int.random(in: 0..<4, using: &random) {
        case 0: perform(mayChange) { _ = try? client.perform(LikeCard(text: text)) }
        case 1:
            guard let account, let person = network.person(account) else { return }
            // The app has received it in its own request.
            let text = "\(person.mark)set-\(writes)"
            if client.accountId == account { client.set(GameCard(text: text), for: .card(2)) }
        default:
            let id = RecordID.game("note-\(Int.random(in: 0...6, using: &random))")
            perform(mayChange) { _ = try? client.perform(WriteNote(id: id, text: text)) }
        }
    }

    /// Performs an operation; during a change it waits, so not on the thread that releases that.
    private func perform(_ mayWait: Bool, _ body: @escaping @Sendable () -> Void) {
        guard mayWait else { return body() }
        tasks.append(Task(executorPreference: OwnThread("writer")) { body() })
    }

    private func turnPages(_ client: SanguineClient) {
        if Bool.random(using: &random) {
            run { try? await client.loadNext(.rows) }
        } else {
            run { _ = try? await client.refresh(.rows) }
        }
    }

    private func changeOnServer() {
        guard let (account, person) = network.accounts.randomElement(using: &random) else { return }
        let number = Int.random(in: 0...6, using: &random)
        let note = GameNote(id: .game("note-\(number)"), text: "\(person.mark)live-\(step)")
        network.authority.set(note, of: account)
    }

    private func pass() {
        let time = Duration.seconds(Int.random(in: 1...400, using: &random))
        wall.advance(by: time)
        delay.advance(by: time)
    }

    private func disturb() {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: network.authority.expireTokens()
        case 1: network.authority.endStreams()
        case 2:
            lifecycle.enterBackground()
            lifecycle.enterForeground()
        default:
            connectivity.disconnect()
            connectivity.connect()
        }
    }

    // MARK: - People

    /// Signs the current user out, and may hand the device on.
    private func changeUser() async throws {
        if let leaving {
            if Int.random(in: 0..<4, using: &random) == 0 { return try await die() }
            // The sign-out is paused halfway and continues now.
            if process.pause.isStopped { note(.heldSignOut) }
            process.pause.release()
            try await finish(leaving)
        } else if process.client.accountId == nil {
            network.holder = Person.allCases.randomElement(using: &random) ?? .ada
        } else {
            // A paused change would make this wait and block a thread.
            if process.pause.isStopped { process.pause.release() }
            let client = process.client
            note(.signOut)
            if Bool.random(using: &random) { process.pause.arm() }
            if network.heldCount > 0 { note(.overtaken) }
            let task = Task(executorPreference: OwnThread("sign-out")) { await client.signOut() }
            leaving = task
            if !process.pause.isArmed { try await finish(task) }
        }
    }

    private func finish(_ task: Task<Void, Never>) async throws {
        try await within("the sign-out") {
            await task.value  // tidy: allow unbounded-wait: bounded.
        }
        leaving = nil
        if process.client.outbox.ofOthers > 0 { note(.farewellToWrites) }
        network.holder = Person.allCases.randomElement(using: &random) ?? .ada
        try await check()
        try await checkFiles()
        try await checkScreen()
    }

    /// Signs another person in without a sign-out, after the server has ended the session.
    private func switchUser() async throws {
        try await settleChanges()
        guard process.client.accountId != nil else { return }
        network.holder = Person.allCases.randomElement(using: &random) ?? .ada
        network.authority.endSessions()
        network.setOpen(true)
        let (client, clock) = (process.client, delay)
        // The first request is rejected, because it belongs to the other person.
        for _ in 0..<8 where client.accountId.flatMap({ network.person($0) }) != network.holder {
            // It may join a fetch that waits for its next attempt.
            try await within("the next user") {
                _ = try? await clock.advancing { try await client.refresh(.account) }
            }
        }
        network.setOpen(false)
        // Otherwise the change is still in progress.
        guard client.accountId != nil else { return }
        note(.userChange)
        try await check()
        try await checkFiles()
    }

    private func settleChanges() async throws {
        if leaving != nil, process.pause.isStopped { note(.heldSignOut) }
        process.pause.release()
        if let leaving { try await finish(leaving) }
    }

    /// Ends the process at this moment and launches the app again.
    private func die() async throws {
        let dead = process
        note(.death)
        if leaving != nil, dead.pause.isStopped { note(.deathInSignOut) }
        network.cut(upTo: launches)
        launches += 1
        let folder = root.appending(path: "\(launches)")
        try UserGameFiles.copy(from: dead.folder, to: folder)
        dead.pause.release()
        if let leaving {
            try await within("a dead sign-out") {
                await leaving.value  // tidy: allow unbounded-wait: bounded.
            }
        }
        leaving = nil
        dead.client.close()
        try? FileManager.default.removeItem(at: dead.folder)
        process = try Self.launch(
            network,
            folder,
            number: launches,
            random: RandomSource(SplitMix64(seed: seed &+ UInt64(launches) << 32)),
            fault: fault,
            (wall, delay, connectivity, lifecycle)
        )
        _ = process.client.records(GameNote.self)
        try await check()
        try await checkFiles()
    }

    /// Finishes all work and signs the last user out, after which no data may remain.
    private func rest() async throws {
        try await settleChanges()
        network.setOpen(true)
        let client = process.client
        let clock = delay
        // Any amount of it will do: on a busy machine it may be little.
        try? await within("the last pull") {
            _ = try? await clock.advancing { try await client.synchronize() }
        }
        try await check()
        // Otherwise the client, whose app is in the foreground, would sign in again.
        network.setOpen(false)
        try await within("the last sign-out") { await client.signOut() }
        try await check()
        try await checkFiles()
        try await checkScreen()
    }

    // MARK: - Checks

    /// Checks everything that the public API shows.
    private func check() async throws {
        // Until a sign-out returns, data may or may not be removed yet.
        guard leaving == nil else { return }
        let client = process.client
        let account = client.accountId
        let shown = UserGameFiles.shown(by: client)
        let tokens = client.cached(.balance)?.available
        let profile = client.cached(.account)?.id
        // A sign-in may have happened in between.
        guard client.accountId == account else { return }
        let current = account.flatMap { network.person($0) }
        var found: String?
        for other in Person.allCases where other != current {
            let text = shown.first { $0.contains(other.mark) || $0.contains(other.deed) }
            if let text { found = "'\(text)'" }
            if tokens == other.tokens { found = "\(other)'s balance" }
        }
        if let profile, profile != account { found = "another's account" }
        guard let found else { return }
        // A sign-in may be in progress: then the data belongs to the account about to be known.
        if account == nil, await isSigningIn() { return }
        throw leak("\(name(current)) sees \(found)")
    }

    /// Returns whether an account becomes known within five seconds, without a request.
    private func isSigningIn() async -> Bool {
        for _ in 0..<500 where process.client.accountId == nil {
            // There is no event for the end of a change.
            try? await Task.sleep(for: .milliseconds(10))  // tidy: allow sleeping-test: no event.
        }
        return process.client.accountId != nil
    }

    /// Checks every byte of the client's folder.
    private func checkFiles() async throws {
        guard leaving == nil, let found = try strange() else { return }
        // A session is stored before it is used, and may belong to the person who held the device
        // when it was requested.
        if process.client.accountId == nil, await isSigningIn(), try strange() == nil { return }
        let current = process.client.accountId.flatMap { network.person($0) }
        throw leak("\(found), and \(name(current)) is signed in")
    }

    /// Returns data in the folder that does not belong to the current user.
    private func strange() throws -> String? {
        let client = process.client
        let account = client.accountId
        let hasOthers = client.outbox.ofOthers > 0
        let files = try UserGameFiles.contents(of: process.folder)
        guard client.accountId == account else { return nil }
        let current = account.flatMap { network.person($0) }
        for (name, data) in files {
            // Operations that wait for their owner's return are only in the outbox.
            let mayWait = hasOthers && name.contains("/sanguine-outbox")
            for other in Person.allCases where other != current {
                var words = [other.mark] + (mayWait ? [] : [other.deed])
                if !mayWait, other != network.holder {
                    words += network.accounts.filter { $0.value == other }.map(\.key.description)
                }
                for word in words where data.range(of: Data(word.utf8)) != nil {
                    return "'\(word)' is in \(name)"
                }
            }
        }
        return nil
    }

    /// Checks the models, which follow in later turns of the main actor.
    private func checkScreen() async throws {
        let client = process.client
        let account = client.accountId
        var last: String?
        let clock = ContinuousClock()
        let end = clock.now + .seconds(5)
        while clock.now < end {
            let shown = await process.screen.shown()
            guard client.accountId == account else { return }
            let current = account.flatMap { network.person($0) }
            last = shown.first { text in
                Person.allCases.contains { $0 != current && text.contains($0.mark) }
            }
            if last == nil { return }
            // There is no event for a model's update.
            try? await Task.sleep(for: .milliseconds(1))  // tidy: allow sleeping-test: no event.
        }
        throw leak("a model still shows '\(last ?? "")'")
    }

    private func name(_ person: Person?) -> String { person?.rawValue ?? "nobody" }

    private func leak(_ detail: String) -> UserLeak {
        let last = trace.suffix(24).joined(separator: "; ")
        return UserLeak(seed: seed, step: step, detail: "\(detail)\nThe last steps: \(last)")
    }

    /// Waits for the body, and fails after 20 seconds.
    private func within(
        _ what: String,
        _ body: @escaping @Sendable () async -> Void
    ) async throws {
        // Not a group, which would wait for the body anyway.
        let (ends, continuation) = AsyncStream.makeStream(of: Bool.self)
        let work = Task {
            await body()
            continuation.yield(true)
        }
        let bound = Task {
            // The limit of the wait; it is cancelled when the wait ends earlier.
            try? await Task.sleep(for: .seconds(20))  // tidy: allow sleeping-test: a bound.
            continuation.yield(false)
        }
        defer {
            work.cancel()
            bound.cancel()
        }
        var isDone = false
        for await ending in ends {  // tidy: allow unbounded-wait: one end is the bound.
            isDone = ending
            break
        }
        if !isDone { throw leak("timed out after 20 seconds waiting for \(what)") }
    }
}
