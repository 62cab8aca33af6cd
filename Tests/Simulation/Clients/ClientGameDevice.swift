import Foundation
import Logging
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization

/// The device's clock, which may be the last that a process looks at.
///
/// The client asks it in the midst of what it does: so a death comes between two of its writes,
/// too.
///
/// Mutable state: `state`, by its mutex, never held over the end.
final class DoomedClock: WallClock {
    private struct State {
        /// How often it may still be looked at; `nil`: as often as one likes.
        var left: Int?
        var end: (@Sendable () -> Void)?
    }

    private let base: ManualWallClock
    private let state = Mutex(State())

    init(_ base: ManualWallClock) { self.base = base }

    /// Has the process end when it looks at the clock once more than so often.
    func doom(after looks: Int, _ end: @escaping @Sendable () -> Void) {
        state.withLock { $0 = State(left: looks, end: end) }
    }

    /// Has the process live on.
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

/// One process of the game: the real client over a folder of its own.
final class ClientGameProcess {
    /// What all processes of a game have in common.
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
    /// Whether the client was closed amid a job.
    let isClosedWithin = GameFlag()
    private let death: Death
    /// What is followed for as long as the process lives.
    private var followings: [ObservationToken] = []
    private var tasks: [Task<Void, Never>] = []

    /// Where the files are as they were when the process died.
    ///
    /// Mutable state: `remains`, by its mutex.
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

    /// Has the app on this device look at its data all the time, so that the feed is live.
    func follow() {
        followings.append(client.observe(.balance) { _ in })
        followings.append(client.observe(.board(0)) { _ in })
        tasks.append(isNew ? follow(GameTally.self) : follow(OldGameTally.self))
    }

    private func follow<Tally: GameTallyForm>(_: Tally.Type) -> Task<Void, Never> {
        let updates = client.updates(of: .all(Tally.self))
        return Task { for await _ in updates {} }
    }

    /// The folder in which its files are as they were when it died; `nil` while it lives.
    var remains: Result<URL, any Error>? { death.copy }

    /// Dies at this moment: nothing of it reaches anybody from now on.
    func die() { death.come() }

    /// Dies at a later look at the clock.
    func doom(after looks: Int) { clock.doom(after: looks) { [death] in death.come() } }

    /// Closes the client amid a job, when the app's code has run so many more times.
    func close(after runs: Int) {
        GameCode.interrupt(after: runs) { [client, isClosedWithin] in
            isClosedWithin.set()
            client.close()
        }
    }

    /// Closes the client; its files stay.
    func close() {
        for task in tasks { task.cancel() }
        (followings, tasks) = ([], [])
        client.close()
        death.network.cut(number)
    }

    /// Lets go of everything.
    func end() {
        death.network.cut(number)
        close()
        try? FileManager.default.removeItem(at: folder)
    }
}

/// A device of the game: its process, and what was seen on it.
struct ClientGameDevice {
    /// What was seen on it since its present user came.
    struct Stay {
        var person: Person?
        /// Marks that were seen, each with where.
        var seen: Set<String> = []
        /// What the user has done here since.
        var deeds: Set<Int> = []
    }

    let number: Int
    var process: ClientGameProcess
    var stay = Stay()
    /// Everything that was ever done on it, by its place among all deeds.
    var deeds: [Int] = []
    /// Whether a sign-out is under way, and how far it is.
    var leaving: Leaving? { didSet { isFarewellSeen = false } }
    /// Whether the files were looked at since it did what it does on the device.
    var isFarewellSeen = false

    /// A sign-out that has not returned.
    ///
    /// Mutable state: `state`, by its mutex.
    final class Leaving: Sendable {
        private let state = Mutex((hasBegun: false, isOver: false))

        var hasBegun: Bool { state.withLock { $0.hasBegun } }
        var isOver: Bool { state.withLock { $0.isOver } }

        func begin() { state.withLock { $0.hasBegun = true } }
        func end() { state.withLock { $0.isOver = true } }
    }
}

/// What the public API of a client shows at one moment.
struct ClientGameView {
    let person: Person?
    /// By where they are: marks, in their order.
    let marks: [(place: String, marks: [String])]
    /// The members of tallies that devices write, by the tally's id and the device.
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

    /// What is there; `nil` if nothing is known of that place.
    func marks(at place: String) -> [String]? { marks.first { $0.place == place }?.marks }

    /// For the trace: the same for the same view.
    var digest: String {
        let places = marks.map { "\($0.place) \($0.marks)" }
        let phases = pending.values.map { "\($0.name) \($0.lane) \($0.phase)" }.sorted()
        let members = GameTally.ids.map { id in (self.members[id] ?? []).map { $0 ?? "-" } }
        return "\(person?.rawValue ?? "-") \(places) \(members) \(phases) \(refused.count)"
    }
}

extension Deed {
    /// Where its mark belongs.
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
