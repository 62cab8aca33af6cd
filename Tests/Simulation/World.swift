import OrderedCollections
import Sanguine
import SanguineModel
import SanguineTesting

/// What the simulation found wrong, with the seed that shows it again.
package struct Violation: Error, CustomStringConvertible {
    package let seed: UInt64
    package let step: Int
    package let guarantee: String
    package let detail: String

    package var description: String {
        """
        seed \(seed), step \(step): \(guarantee): \(detail)
        Replay it with: make simulate SEEDS=\(seed)..\(seed)
        """
    }
}

/// Devices and an authority, with everything between them that can go wrong.
///
/// All that happens follows from the seed: who does what, which message is lost, doubled or late,
/// who dies at which step. After each event the guarantees are checked that hold at any time, and
/// at rest, with the network healed, *convergence*.
package struct World<Authority: SimulatedAuthority> {
    /// Something on its way.
    private enum Message {
        case push(device: Int, process: Int, flight: UInt64, PushRequest, account: Identifier)
        case pushAnswer(device: Int, process: Int, flight: UInt64, PushAnswer?)
        case pull(device: Int, process: Int, Device.Question, account: Identifier)
        case pullAnswer(device: Int, process: Int, Device.Question, PullAnswer?)
    }

    /// An operation that a device accepted: `perform` returned.
    private struct Accepted {
        let account: Identifier
        let device: Int
        /// The member that it leaves in its counters.
        let mark: String
        let counters: [RecordKey]
        /// Whether nobody may do it: it is refused, or was taken back.
        var isPoison: Bool
        let step: Int
        var isRefused = false
        /// Whether the authority has it: then it has it for good.
        var isDone = false
    }

    private let seed: UInt64
    private var random: SplitMix64
    private var authority: Authority
    private var devices: [Device]
    private var network: [Message] = []
    private var accepted: OrderedDictionary<Identifier, Accepted> = [:]
    private var accounts: [Identifier] = []
    private var step = 0
    /// Whether nothing goes wrong any more.
    private var isHealed = false
    private var clock: Int64 = 1_790_000_000_000
    private let bug: PlantedBug?

    package init(seed: UInt64, authority: Authority, bug: PlantedBug? = nil) {
        self.seed = seed
        self.bug = bug
        self.authority = authority
        random = SplitMix64(seed: seed)
        devices = (0..<3).map { Device(number: $0, bug: bug) }
    }

    /// Plays events, then lets everything come to rest.
    ///
    /// - Throws: ``Violation``
    package mutating func run(events: Int) async throws {
        for number in 0..<2 { accounts.append(try await authority.account(number)) }
        for index in devices.indices {
            try devices[index].signIn(accounts[index == 2 ? 1 : 0])
        }
        for _ in 0..<events {
            step += 1
            try await event()
            try await check()
        }
        try await rest()
    }

    // MARK: - Events

    private mutating func event() async throws {
        let device = Int.random(in: 0..<devices.count, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<28: try await act(device) { try $0.perform(on: device) }
        case 28..<50: try await act(device) { try $0.send(device) }
        case 50..<80: try await deliver()
        case 80..<86: try await act(device) { try await $0.live(device) }
        case 86..<90:
            devices[device].wake()
            devices[device].wantsPull = true
        case 90..<93: devices[device].die()
        case 93..<96: if devices[device].state == nil { try devices[device].start() }
        case 96: try await act(device) { try $0.withdraw(on: device) }
        case 97: try await act(device) { try $0.devices[device].emptyTray() }
        case 98: try await sweep()
        default: try changeUser(device)
        }
    }

    // Runs a step of a device, which may die in it.
    private mutating func act(
        _ device: Int,
        _ body: (inout Self) async throws -> Void
    ) async throws {
        guard devices[device].state != nil else { return }
        let deadline = isHealed ? .max : Int.random(in: 0..<40, using: &random)
        let steps = StepCount()
        devices[device].dies = {
            steps.value += 1
            return steps.value == deadline
        }
        defer { devices[device].dies = { false } }
        do {
            try await body(&self)
        } catch is Death {
            devices[device].die()
        }
    }

    private mutating func perform(on device: Int) throws {
        clock += 1
        let id = Identifier(at: Timestamp(millisecondsSince1970: clock), using: &random)
        let counters = SimulatedApp.counters.shuffled(using: &random)
        let lane = ["main", "side"].randomElement(using: &random) ?? "main"
        let note = SimulatedApp.notes[Int.random(in: 0..<5, using: &random)]
        let tags = ["red", "blue"].shuffled(using: &random)
        var marks: [RecordKey] = []
        var isPoison = false
        let mutator: any RecordMutation
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<4:
            mutator = Mark(counter: counters[0].id, lane: lane)
            marks = [counters[0]]
        case 4:
            mutator = Move(from: counters[0].id, to: counters[1].id)
            marks = Array(counters.prefix(2))
        case 5:
            mutator = Poison(counter: counters[0].id)
            marks = [counters[0]]
            isPoison = true
        case 6:
            mutator = CreateRecord(note, ["tag": .string(tags[0]), "by": .integer(Int64(device))])
        case 7: mutator = SetFields(note, ["tag": .string(tags[0]), "x": .integer(clock)])
        case 8: mutator = DeleteRecord(note)
        default: mutator = Retag(from: tags[0], to: tags[1])
        }
        guard let account = devices[device].disk.account else { return }
        let before = devices[device].disk.lastSequence
        do {
            guard try devices[device].perform(mutator, id: id) != nil else { return }
        } catch is Death {
            // Durable or not: if it is, it counts.
            guard devices[device].disk.lastSequence > before else { throw Death() }
            accept(id, account, device, marks, isPoison)
            throw Death()
        }
        accept(id, account, device, marks, isPoison)
    }

    private mutating func accept(
        _ id: Identifier,
        _ account: Identifier,
        _ device: Int,
        _ marks: [RecordKey],
        _ isPoison: Bool
    ) {
        accepted[id] = Accepted(
            account: account,
            device: device,
            mark: "op-\(id)",
            counters: marks,
            isPoison: isPoison,
            step: step
        )
    }

    /// Takes back what waits and has reached nobody: from then on it is nowhere.
    private mutating func withdraw(on device: Int) throws {
        guard let id = devices[device].firstUnsent else { return }
        // It may die in between: the disk says which came first.
        defer {
            if !isQueued(id, on: devices[device]) {
                accepted[id]?.isPoison = true
                accepted[id]?.isRefused = true
            }
        }
        try devices[device].withdraw(id)
    }

    private mutating func send(_ device: Int) throws {
        guard let account = devices[device].disk.account else { return }
        let process = devices[device].process
        if let (flight, request) = try devices[device].push() {
            network.append(
                .push(device: device, process: process, flight: flight, request, account: account)
            )
        }
        if let question = devices[device].pull() {
            network.append(.pull(device: device, process: process, question, account: account))
        }
    }

    /// Delivers, loses, doubles or delays a message, whichever.
    private mutating func deliver() async throws {
        guard !network.isEmpty else { return }
        // Any of them: messages overtake each other.
        let place = isHealed ? 0 : Int.random(in: 0..<network.count, using: &random)
        let fate = isHealed ? 0 : Int.random(in: 0..<10, using: &random)
        let message = fate == 1 ? network[place] : network.remove(at: place)
        switch message {
        case .push(let device, let process, let flight, let request, let account):
            guard fate != 2 else {
                network.append(.pushAnswer(device: device, process: process, flight: flight, nil))
                return
            }
            let answer = try await authority.push(request, account: account)
            let isLost = fate == 3
            network.append(
                .pushAnswer(
                    device: device,
                    process: process,
                    flight: flight,
                    isLost ? nil : answer
                )
            )
        case .pushAnswer(let device, let process, let flight, let answer):
            guard devices[device].process == process else { return }
            try await act(device) { world in
                if let answer {
                    try world.devices[device].pushLanded(flight, answer)
                } else {
                    world.devices[device].pushFailed(flight, wasSent: true)
                }
            }
        case .pull(let device, let process, let question, let account):
            let answer =
                fate == 2
                ? nil
                : try await authority.pull(
                    account: account,
                    since: question.since,
                    limit: Int.random(in: 1...4, using: &random),
                    horizon: question.horizon,
                    operations: question.asked.sorted { $0.key < $1.key }.map(\.value)
                )
            network.append(.pullAnswer(device: device, process: process, question, answer))
        case .pullAnswer(let device, let process, let question, let answer):
            guard devices[device].process == process else { return }
            try await act(device) { world in
                if let answer {
                    try world.devices[device].pullLanded(answer, to: question)
                } else {
                    world.devices[device].pullFailed()
                }
            }
        }
    }

    /// The live connection brings the next operation's changes, or breaks, or is made.
    private mutating func live(_ device: Int) async throws {
        guard let account = devices[device].disk.account, let state = devices[device].state else {
            return
        }
        guard let since = devices[device].live, Int.random(in: 0..<8, using: &random) > 0 else {
            devices[device].live = state.pullPosition
            return
        }
        let answer = try await authority.pull(
            account: account,
            since: since,
            limit: 1,
            horizon: state.pullHorizon,
            operations: []
        )
        guard !answer.reset else {
            devices[device].live = nil
            devices[device].wantsPull = true
            return
        }
        guard answer.next != since else { return }
        devices[device].live = answer.next
        try devices[device].receive(SyncState.FeedBatch(answer, since: since))
    }

    /// Drops tombstones.
    private mutating func sweep() async throws {
        try await authority.sweep()
    }

    private mutating func changeUser(_ device: Int) throws {
        if devices[device].disk.account == nil {
            try devices[device].signIn(accounts.randomElement(using: &random) ?? accounts[0])
        } else {
            devices[device].emptied = step
            try devices[device].signOut()
        }
    }

    // MARK: - Rest

    private mutating func rest() async throws {
        isHealed = true
        for index in devices.indices {
            // Whoever has made operations comes back to send them.
            for account in accounts {
                if devices[index].disk.account != account {
                    devices[index].emptied = step
                    try devices[index].signOut()
                    try devices[index].signIn(account)
                } else {
                    try devices[index].start()
                }
                try await settle(index)
            }
        }
        for index in devices.indices {
            devices[index].wantsPull = true
            try await settle(index)
            try await checkConvergence(index)
        }
        try await checkOperations()
    }

    private mutating func settle(_ device: Int) async throws {
        devices[device].wantsPull = true
        for round in 0..<1_000 {
            devices[device].wake()
            try send(device)
            let isEmpty = devices[device].state?.outbox.visible.isEmpty == true
            if network.isEmpty, isEmpty, devices[device].state?.isComplete == true { return }
            while !network.isEmpty { try await deliver() }
            step += 1
            try await check()
            guard round < 999 else {
                throw violation(
                    "Convergence",
                    "device \(device) never comes to rest: \(devices[device].summary)"
                )
            }
        }
    }

    // MARK: - Guarantees

    private func violation(_ guarantee: String, _ detail: String) -> Violation {
        Violation(seed: seed, step: step, guarantee: guarantee, detail: detail)
    }

    private mutating func check() async throws {
        for device in devices {
            guard let state = device.state, let account = device.disk.account else { continue }
            var marks: [RecordKey: RecordFields] = [:]
            for key in SimulatedApp.counters {
                let record = try state.replay.record(key, over: device.disk.mirror)
                marks[key] = try record?.value.fields() ?? [:]
            }
            try await checkMarks(marks, on: device, of: account)
            if step % 4 == 0 { try checkReplay(state, on: device) }
        }
        try await checkNothingLost()
    }

    /// What is visible is what all pending operations make of the base, one after the other.
    private func checkReplay(_ state: SyncState, on device: Device) throws {
        var naive = device.disk.mirror
        for sequence in state.outbox.visible {
            guard let operation = device.disk.outbox[sequence]?.operation else {
                throw violation("Nothing lost", "\(sequence) is shown and not on the disk")
            }
            var records = Records(
                from: naive,
                schema: SimulatedApp.client,
                operation: operation.context
            )
            guard (try? records.run(operation.mutator)) != nil else { continue }
            for (key, change) in records.changes { naive.records[key] = change }
        }
        for key in SimulatedApp.counters + SimulatedApp.notes {
            let visible = try state.replay.record(key, over: device.disk.mirror)?.value
            guard visible == naive.records[key] else {
                throw violation("Base ⊕ pending", "device \(device.number) shows \(key) otherwise")
            }
        }
    }

    private mutating func checkMarks(
        _ marks: [RecordKey: RecordFields],
        on device: Device,
        of account: Identifier
    ) async throws {
        for (id, operation) in accepted {
            let seen = operation.counters.map { marks[$0]?[operation.mark]?.integer ?? 0 }
            if operation.account != account {
                guard seen.allSatisfy({ $0 == 0 }) else {
                    throw violation("No leak", "device \(device.number) shows another's \(id)")
                }
                continue
            }
            guard seen.allSatisfy({ $0 <= 1 }) else {
                throw violation("Exactly once", "device \(device.number) shows \(id) as \(seen)")
            }
            let isOwn = operation.device == device.number
            let isPart = device.state?.isComplete != true && !isQueued(id, on: device)
            guard Set(seen).count <= 1 || isPart else {
                throw violation("No flicker", "device \(device.number) shows half of \(id)")
            }
            if isOwn, isRefused(id, on: device) { accepted[id]?.isRefused = true }
            let isRefused = accepted[id]?.isRefused == true
            if isOwn, !isRefused, seen.contains(0) {
                // Its maker signed out since: then what it sees is what the base has.
                guard try await wasForgotten(id, on: device) else {
                    throw violation("No flicker", "device \(device.number) hides its own \(id)")
                }
            }
            if isRefused, isOwn, seen.contains(1) {
                throw violation("Independent rollback", "\(id) is refused and still shown")
            }
        }
    }

    private func isQueued(_ id: Identifier, on device: Device) -> Bool {
        device.disk.phase(of: id) != nil
    }

    private func isRefused(_ id: Identifier, on device: Device) -> Bool {
        if case .refused = device.disk.phase(of: id) { true } else { false }
    }

    /// Whether the operation was settled in a base that a sign-out threw away, and the new one is
    /// not there yet.
    private mutating func wasForgotten(_ id: Identifier, on device: Device) async throws -> Bool {
        guard !isQueued(id, on: device),
            let operation = accepted[id], device.emptied > operation.step
        else { return false }
        let answer = try await authority.pull(
            account: operation.account,
            since: 0,
            limit: 1,
            horizon: 0,
            operations: [id]
        )
        guard let head = answer.operations?.first?.head else { return true }
        return device.disk.mirror.position < head || device.state?.isComplete != true
    }

    private mutating func checkNothingLost() async throws {
        var records: [Identifier: [RecordKey: RecordValue]] = [:]
        for (id, operation) in accepted where !operation.isPoison && !operation.isDone {
            guard !operation.counters.isEmpty, !isQueued(id, on: devices[operation.device])
            else { continue }
            let account = operation.account
            if records[account] == nil {
                records[account] = try await authority.records(of: account)
            }
            let done = operation.counters.map { records[account]?[$0]?[operation.mark] }
            guard done.allSatisfy({ $0 == .integer(1) }) else {
                throw violation("Nothing lost", "\(id) is neither queued nor done")
            }
            accepted[id]?.isDone = true
        }
    }

    private func checkOperations() async throws {
        var records: [Identifier: [RecordKey: RecordValue]] = [:]
        for account in accounts { records[account] = try await authority.records(of: account) }
        for (id, operation) in accepted where !operation.counters.isEmpty {
            let records = records[operation.account] ?? [:]
            let done = operation.counters.map { records[$0]?[operation.mark]?.integer ?? 0 }
            guard done.allSatisfy({ $0 == (operation.isPoison ? 0 : 1) }) else {
                throw violation("Exactly once", "\(id) was done \(done) times")
            }
        }
    }

    private func checkConvergence(_ index: Int) async throws {
        let device = devices[index]
        guard let account = device.disk.account else { return }
        let records = try await authority.records(of: account)
        let mirror = device.disk.mirror.records.filter { !$0.key.collection.hasPrefix("$") }
        guard mirror == records else {
            let keys = Set(mirror.keys).union(records.keys).filter { mirror[$0] != records[$0] }
            throw violation("Convergence", "device \(index) differs in \(keys.sorted())")
        }
    }
}

// Shared with the closure that decides when a device dies; one thread.
private final class StepCount {
    var value = -1
}
