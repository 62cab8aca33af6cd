import Foundation
import Logging
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization

/// The device's clock, during whose reading the process may die.
///
/// The client reads the clock while it works, so a process can also die between two of its writes.
///
/// Mutable state: `state`, protected by a mutex that is not held during the end.
final class DoomedClock: WallClock {
    private struct State {
        /// The number of readings left; `nil`: unlimited.
        var left: Int?
        var end: (@Sendable () -> Void)?
    }

    private let base: ManualWallClock
    private let state = Mutex(State())

    init(_ base: ManualWallClock) { self.base = base }

    /// Ends the process when the clock is read after that many readings.
    func doom(after looks: Int, _ end: @escaping @Sendable () -> Void) {
        state.withLock { $0 = State(left: looks, end: end) }
    }

    /// Cancels the planned end.
    func spare() { state.withLock { $0 = State() } }

    func now() -> Timestamp {
        let end = state.withLock { state -> (@Sendable () -> Void)? in
            guard let left = state.left else { return nil }
            state.left = left - 1
            guard left == 0 else { return nil }
            state.left = nil
            return state.end.take()
        }
        end?()
        return base.now()
    }
}

/// One process of the game: the real client with its own folder.
final class ClientGameProcess {
    /// The objects that all processes of a game share.
    struct World {
        let network: ClientGameNetwork
        let wall: ManualWallClock
        let delay: ManualClock
        let fault: PlantedFault?
    }

    let number: Int
    /// Whether it is the second version of the app.
    let isNew: Bool
    let folder: URL
    let client: SanguineClient
    let clock: DoomedClock
    let lifecycle = ManualLifecycle()
    let connectivity: ManualConnectivity
    let calls = CallCount()
    /// Whether the client was closed during a job.
    let isClosedWithin = GameFlag()
    private let death: Death
    /// The observations that last as long as the process.
    private var followings: [ObservationToken] = []
    private var tasks: [Task<Void, Never>] = []

    /// The location of the files as they were when the process died.
    ///
    /// Mutable state: `remains`, protected by a mutex.
    private final class Death: Sendable {
        let network: ClientGameNetwork
        let number: Int
        let folder: URL
        private let remains = Mutex<Result<URL, any Error>?>(nil)

        init(_ network: ClientGameNetwork, _ number: Int, _ folder: URL) {
            (self.network, self.number, self.folder) = (network, number, folder)
        }

        var copy: Result<URL, any Error>? { remains.withLock { $0 } }

        func come() {
            guard copy == nil else { return }
            network.cut(number)
            let copy = folder.deletingLastPathComponent().appending(path: "after-\(number)")
            let copied = Result { try UserGameFiles.copy(from: folder, to: copy) }
            remains.withLock { $0 = copied.map { copy } }
        }
    }

    init(
        _ world: World,
        device: Int,
        number: Int,
        folder: URL,
        seed: UInt64,
        isOnline: Bool,
        isNew: Bool
    ) throws {
        self.number = number
        self.isNew = isNew
        connectivity = ManualConnectivity(isOnline: isOnline)
        self.folder = folder
        death = Death(world.network, number, folder)
        clock = DoomedClock(world.wall)
        var configuration = SanguineClient.Configuration(server: URL(string: "http://game.test"))
        (configuration.clock, configuration.delay) = (clock, world.delay)
        (configuration.connectivity, configuration.lifecycle) = (connectivity, lifecycle)
        configuration.random = RandomSource(SplitMix64(seed: seed &+ UInt64(number) << 40))
        configuration.folder = folder
        configuration.transport = ClientGameLine(
            network: world.network,
            device: device,
            process: number
        )
        configuration.schema = isNew ? .clientGame : .oldClientGame
        configuration.mutations = [
            MarkBoard.self, AddEntry.self, MarkEntry.self, DropEntry.self,
        ]
        configuration.deviceId = "device-of-the-game-\(device)"
        (configuration.timeZone, configuration.language) = ("UTC", "en")
        configuration.logger = Logger(label: "game") { _ in SwiftLogNoOpLogHandler() }
        configuration.queue = { _ in JobQueue.Work() }
        configuration.plantedFault = world.fault
        client = try SanguineClient(configuration)
    }

    /// Observes the data as an app in the foreground does, so that the feed is live.
    func follow() {
        followings.append(client.observe(.balance) { _ in })
        followings.append(client.observe(.board(0)) { _ in })
        tasks.append(isNew ? follow(GameTally.self) : follow(OldGameTally.self))
    }

    private func follow<Tally: GameTallyForm>(_: Tally.Type) -> Task<Void, Never> {
        let updates = client.updates(of: .all(Tally.self))
        return Task { for await _ in updates {} }
    }

    /// The folder with the files as they were when the process died, or `nil` while it lives.
    var remains: Result<URL, any Error>? { death.copy }

    /// Ends the process now; nothing that it does afterwards has an effect.
    func die() { death.come() }

    /// Ends the process at a later reading of the clock.
    func doom(after looks: Int) { clock.doom(after: looks) { [death] in death.come() } }

    /// Closes the client during a job, after the app's code has run that many more times.
    func close(after runs: Int) {
        GameCode.interrupt(after: runs) { [client, isClosedWithin] in
            isClosedWithin.set()
            client.close()
        }
    }

    /// Closes the client and keeps its files.
    func close() {
        for task in tasks { task.cancel() }
        (followings, tasks) = ([], [])
        client.close()
        death.network.cut(number)
    }

    /// Releases everything.
    func end() {
        death.network.cut(number)
        close()
        try? FileManager.default.removeItem(at: folder)
    }
}

/// A device of the game: its process and the observations on it.
struct ClientGameDevice {
    /// The observations on a device since its current user arrived.
    struct Stay {
        var person: Person?
        /// The marks that were seen, each with its place.
        var seen: Set<String> = []
        /// The deeds that the user has done here since.
        var deeds: Set<Int> = []
    }

    let number: Int
    var process: ClientGameProcess
    var stay = Stay()
    /// All deeds ever done on it, as indices into all deeds.
    var deeds: [Int] = []
    /// The sign-out in progress, if there is one.
    var leaving: Leaving? { didSet { isFarewellSeen = false } }
    /// Whether the files were checked since the sign-out finished its work on the device.
    var isFarewellSeen = false

    /// A sign-out that has not returned.
    ///
    /// Mutable state: `state`, protected by a mutex.
    final class Leaving: Sendable {
        private let state = Mutex((hasBegun: false, isOver: false))

        var hasBegun: Bool { state.withLock { $0.hasBegun } }
        var isOver: Bool { state.withLock { $0.isOver } }

        func begin() { state.withLock { $0.hasBegun = true } }
        func end() { state.withLock { $0.isOver = true } }
    }
}

/// The state that the public API of a client shows at one moment.
struct ClientGameView {
    let person: Person?
    /// The marks, in order, by place.
    let marks: [(place: String, marks: [String])]
    /// The members of tallies that devices write, by tally and device.
    let members: [RecordID: [String?]]
    let pending: [Identifier: Outbox.Operation]
    let refused: [Identifier: Outbox.Refused]

    init(_ process: ClientGameProcess, _ network: ClientGameNetwork, size: Int) {
        let client = process.client
        person = client.accountId.flatMap { network.person($0) }
        var marks: [(String, [String])] = []
        var members: [RecordID: [String?]] = [:]
        for id in GameTally.ids {
            if process.isNew {
                let tally = client.record(GameTally.self, id)
                marks.append((id.text, tally?.marks ?? []))
                marks.append(("\(id.text) more", tally?.more ?? []))
                members[id] = tally?.members
            } else {
                let tally = client.record(OldGameTally.self, id)
                marks.append((id.text, tally?.marks ?? []))
                members[id] = tally?.members
            }
        }
        self.members = members
        for number in GameBoard.numbers {
            if let board = client.cached(.board(number)) {
                marks.append(("board \(number)", board.marks))
            }
        }
        let entries = client.snapshot(of: .entries(size))
        if entries.asOf != nil {
            marks.append(("entries", entries.items.map(\.id).filter { !GameEntry.isFixed($0) }))
            marks += entries.items.map { ("row \($0.id)", $0.marks) }
        }
        for id in GameEntry.fixed(7) {
            if let entry = client.cached(.entry(id)) { marks.append(("entry \(id)", entry.marks)) }
        }
        self.marks = marks
        let outbox = client.outbox
        pending = Dictionary(outbox.pending.map { ($0.id, $0) }) { first, _ in first }
        refused = Dictionary(outbox.refused.map { ($0.id, $0) }) { first, _ in first }
    }

    /// Returns the marks at a place, or `nil` if nothing is known of it.
    func marks(at place: String) -> [String]? { marks.first { $0.place == place }?.marks }

    /// A digest for the trace; equal views have equal digests.
    var digest: String {
        let places = marks.map { "\($0.place) \($0.marks)" }
        let phases = pending.values.map { "\($0.name) \($0.lane) \($0.phase)" }.sorted()
        let members = GameTally.ids.map { id in (self.members[id] ?? []).map { $0 ?? "-" } }
        return "\(person?.rawValue ?? "-") \(places) \(members) \(phases) \(refused.count)"
    }
}

extension Deed {
    /// The places where its mark belongs.
    var places: [String] {
        switch kind {
        case .tally(let ids, .marks): ids.map(\.text)
        case .tally(let ids, .more): ids.map { "\($0.text) more" }
        case .tally(let ids, .both): ids.flatMap { [$0.text, "\($0.text) more"] }
        case .board(let number): ["board \(number)"]
        case .added: ["entries"]
        case .marked(let entry): ["row \(entry)", "entry \(entry)"]
        case .set, .dropped: []
        }
    }
}
