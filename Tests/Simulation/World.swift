import OrderedCollections
import Sanguine
import SanguineModel
import SanguineTesting

/// A violation that the simulation found, with the seed that reproduces it.
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

/// The events that a world's games must contain: if one never happens, nothing is proven about it.
package enum WorldTurn: String, CaseIterable, Sendable {
    case upgrade = "apps launched in a newer version"
    case downgrade = "apps launched in an older version"
    case otherVersion = "operations made by another version"
    case unknownHere = "operations unknown to the launched version"
    case deferred = "operations that the authority did not know yet"
    case shared = "records whose members two devices changed"
    case restore = "copies restored"
    case sentAgain = "operations applied again after a restore"
    case forgotten = "settled operations lost with a history"
}

/// The number of times that each event happened.
package typealias WorldTally = [WorldTurn: Int]

/// Devices and an authority, with every failure that can occur between them.
///
/// Everything follows from the seed: the operations on each device, which messages are lost,
/// duplicated or delayed, which device dies at which step, which version of the app is launched,
/// and when the authority's data is restored from an older copy. The permanent guarantees are
/// checked after each event, and *convergence* at the end, with the network healed.
package struct World<Authority: SimulatedAuthority> {
    /// A message on its way.
    private enum Message {
        case push(device: Int, process: Int, send: UInt64, PushRequest, account: Identifier)
        case pushAnswer(device: Int, process: Int, send: UInt64, PushAnswer?, Epoch?)
        case pull(device: Int, process: Int, Device.Question, account: Identifier)
        case pullAnswer(device: Int, process: Int, Device.Question, PullAnswer?)
    }

    /// An operation that a device accepted: `perform` returned.
    private struct Accepted {
        let account: Identifier
        let device: Int
        /// The mark that it leaves in its places.
        let mark: String
        let traces: Traces
        /// Whether it must not be applied, because it is refused or was withdrawn.
        var isPoison: Bool
        let step: Int
        var isRefused = false
        /// Whether the authority has applied it, which is permanent until an older copy is
        /// restored.
        var isDone = false
        /// The epochs of lost histories that contained it.
        var lostIn: Set<Epoch> = []
        /// Whether only lost histories contain it and its device had settled it: it is not sent
        /// again.
        var isLost = false

        var places: [RecordKey] { traces.places }
        /// Whether it can be observed whether it was applied.
        var isTraced: Bool { !traces.places.isEmpty || traces.member != nil }
    }

    /// The traces that an applied operation leaves.
    private struct Traces {
        /// The places where it leaves its mark.
        var places: [RecordKey] = []
        /// The sheet in which it changes its device's member, and the new value.
        var member: (sheet: RecordKey, number: Int64)?
        var isPoison = false
    }

    private let seed: UInt64
    private var random: SplitMix64
    private var authority: Authority
    private var devices: [Device]
    private var network: [Message] = []
    private var accepted: OrderedDictionary<Identifier, Accepted> = [:]
    private var accounts: [Identifier] = []
    private var step = 0
    /// Whether failures have ended.
    private var isHealed = false
    private var clock: Int64 = 1_790_000_000_000
    private let bug: PlantedBug?
    /// Whether the authority's data may be restored from an older copy.
    private let isRestored: Bool
    private var copy: Authority.Copy?
    /// Whether the authority lacks some mutations.
    private var isOld = false
    private var tally: WorldTally = [:]
    /// The devices that have changed since they were last checked.
    private var touched: Set<Int> = []

    package init(seed: UInt64, authority: Authority, bug: PlantedBug? = nil) {
        self.seed = seed
        self.bug = bug
        self.authority = authority
        var random = SplitMix64(seed: seed)
        isRestored = Bool.random(using: &random)
        devices = (0..<3).map {
            Device(number: $0, version: .random(in: 1...2, using: &random), bug: bug)
        }
        self.random = random
    }

    /// Plays events, then finishes all work.
    ///
    /// - Returns: The turns that happened.
    /// - Throws: ``Violation``
    package mutating func run(events: Int) async throws -> WorldTally {
        for number in 0..<2 {
            accounts.append(try await authority.account(number))
            try await furnish(accounts[number])
        }
        for index in devices.indices {
            try devices[index].signIn(accounts[index == 2 ? 1 : 0])
        }
        for _ in 0..<events {
            step += 1
            try await event()
            try await check()
        }
        try await rest()
        for device in devices where device.found.ofOther > 0 {
            count(.otherVersion, device.found.ofOther)
            if device.found.unknown > 0 { count(.unknownHere, device.found.unknown) }
        }
        return tally
    }

    private mutating func count(_ turn: WorldTurn, _ times: Int = 1) {
        tally[turn, default: 0] += times
    }

    /// Stores the account's sheets as the first version of the app does.
    private mutating func furnish(_ account: Identifier) async throws {
        let sheets = try SimulatedApp.sheets.enumerated().map { index, key in
            let fields = try RecordValue(OldSheet(id: key.id)).fields()
            return PushedOperation(
                id: Identifier(
                    at: Timestamp(millisecondsSince1970: clock + Int64(index)),
                    using: &random
                ),
                sequence: Int64(index) + 1,
                lane: "main",
                mutator: CreateRecord.name,
                arguments: try JSONValue(encoding: CreateRecord(key, fields))
            )
        }
        let request = PushRequest(device: "support-of-the-simulation", operations: sheets)
        _ = try await authority.push(request, account: account)
    }

    // MARK: - Events

    private mutating func event() async throws {
        let device = Int.random(in: 0..<devices.count, using: &random)
        touched.insert(device)
        switch Int.random(in: 0..<108, using: &random) {
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
        case 99: try changeUser(device)
        case 100..<103: try changeVersion(device)
        case 103:
            isOld.toggle()
            authority.setUnknown(isOld ? SimulatedApp.undeployed : [])
        case 104..<106: copy = authority.copy()
        default: try await restore()
        }
    }

    /// Launches the app in its other version.
    private mutating func changeVersion(_ device: Int) throws {
        count(devices[device].version.isNew ? .downgrade : .upgrade)
        devices[device].version = devices[device].version.other
        try devices[device].start()
    }

    /// Restores the authority's data from the copy; all later data is lost.
    private mutating func restore() async throws {
        guard isRestored, let copy else { return }
        count(.restore)
        let former = authority.epoch
        let before = try await done()
        authority.restore(copy)
        let lost = before.subtracting(try await done())
        for (id, operation) in accepted where lost.contains(id) {
            accepted[id]?.isDone = false
            if let former { accepted[id]?.lostIn.insert(former) }
            // An operation that is still in an outbox is sent again.
            guard !operation.isLost, !isQueued(id, on: devices[operation.device]) else { continue }
            accepted[id]?.isLost = true
            count(.forgotten)
        }
        for index in devices.indices { devices[index].live = nil }
    }

    /// Returns the accepted operations that the authority has applied.
    private mutating func done() async throws -> Set<Identifier> {
        var done: Set<Identifier> = []
        for account in accounts {
            let ids = accepted.filter { $0.value.account == account }.map(\.key)
            for start in stride(from: 0, to: ids.count, by: WireLimits.operationsAsked) {
                let part = Array(ids[start...].prefix(WireLimits.operationsAsked))
                done.formUnion(try await self.done(part, account))
            }
        }
        return done
    }

    private mutating func done(
        _ ids: [Identifier],
        _ account: Identifier
    ) async throws -> [Identifier] {
        let answer = try await authority.pull(
            account: account,
            since: 0,
            limit: 1,
            horizon: 0,
            epoch: nil,
            operations: ids
        )
        return (answer.operations ?? []).filter { $0.status == .applied }.map(\.id)
    }

    // Runs a step of a device, which may die during it.
    private mutating func act(
        _ device: Int,
        _ body: (inout Self) async throws -> Void
    ) async throws {
        guard devices[device].state != nil else { return }
        touched.insert(device)
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
        var traces = Traces()
        let mutation: any RecordMutation
        switch Int.random(in: 0..<16, using: &random) {
        case 0..<4:
            mutation = Mark(counter: counters[0].id, lane: lane)
            traces.places = [counters[0]]
        case 4:
            mutation = Move(from: counters[0].id, to: counters[1].id)
            traces.places = Array(counters.prefix(2))
        case 5:
            mutation = Poison(counter: counters[0].id)
            traces.places = [counters[0]]
            traces.isPoison = true
        case 6:
            mutation = CreateRecord(note, ["tag": .string(tags[0]), "by": .integer(Int64(device))])
        case 7: mutation = SetFields(note, ["tag": .string(tags[0]), "x": .integer(clock)])
        case 8: mutation = DeleteRecord(note)
        case 9: mutation = Retag(from: tags[0], to: tags[1])
        default:
            guard let (onSheet, traced) = try sheetMutation(on: device, lane) else { return }
            (mutation, traces) = (onSheet, traced)
        }
        guard let account = devices[device].disk.account else { return }
        let before = devices[device].disk.lastSequence
        do {
            guard try devices[device].perform(mutation, id: id) != nil else {
                guard !traces.places.contains(where: { $0.collection.hasPrefix("sheets") })
                else { throw versions("device \(device) refuses a mutation of a sheet") }
                return
            }
        } catch is Death {
            // It counts if it was stored before the death.
            guard devices[device].disk.lastSequence > before else { throw Death() }
            accept(id, account, device, traces)
            throw Death()
        }
        accept(id, account, device, traces)
    }

    /// Returns a mutation of a sheet in the version of the device's app.
    ///
    /// - Returns: `nil` if the device does not show the sheet.
    private mutating func sheetMutation(
        on device: Int,
        _ lane: String
    ) throws -> (any RecordMutation, Traces)? {
        let version = devices[device].version
        let sheet = SimulatedApp.sheets[Int.random(in: 0..<2, using: &random)]
        let depth = SimulatedApp.depth(of: sheet)
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1:
            let isDeep = version.isNew && Bool.random(using: &random)
            let mutation = version.mark(sheet.id, lane: lane, isDeep: isDeep)
            return (mutation, Traces(places: isDeep ? [sheet, depth] : [sheet]))
        case 2 where version.isNew:
            return (version.deepen(sheet.id, lane: lane), Traces(places: [depth]))
        default:
            guard let state = devices[device].state,
                let shown = try state.replay.record(sheet, over: devices[device].disk.mirror)
            else { return nil }
            guard let mutation = try? version.set(clock, by: device, in: shown.value, sheet) else {
                throw versions("device \(device) cannot read \(sheet)")
            }
            return (mutation, Traces(member: (sheet, clock)))
        }
    }

    private mutating func accept(
        _ id: Identifier,
        _ account: Identifier,
        _ device: Int,
        _ traces: Traces
    ) {
        accepted[id] = Accepted(
            account: account,
            device: device,
            mark: "op-\(id)",
            traces: traces,
            isPoison: traces.isPoison,
            step: step
        )
    }

    /// Withdraws a queued operation that was not sent; it must never appear again.
    private mutating func withdraw(on device: Int) throws {
        guard let id = devices[device].firstUnsent else { return }
        // The device may die in the meantime: the disk decides which came first.
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
        if let (send, request) = try devices[device].push() {
            network.append(
                .push(device: device, process: process, send: send, request, account: account)
            )
        }
        if let question = devices[device].pull() {
            network.append(.pull(device: device, process: process, question, account: account))
        }
    }

    /// Delivers, loses, duplicates or delays a random message.
    private mutating func deliver() async throws {
        guard !network.isEmpty else { return }
        // Any of them, so that messages overtake each other.
        let place = isHealed ? 0 : Int.random(in: 0..<network.count, using: &random)
        let fate = isHealed ? 0 : Int.random(in: 0..<10, using: &random)
        let message = fate == 1 ? network[place] : network.remove(at: place)
        switch message {
        case .push(let device, let process, let send, let request, let account):
            guard fate != 2 else {
                network.append(
                    .pushAnswer(device: device, process: process, send: send, nil, nil)
                )
                return
            }
            let answer = try await authority.push(request, account: account)
            let deferred = answer.results.filter { $0.problem?.code == .mutatorUnknown }
            if !deferred.isEmpty { count(.deferred, deferred.count) }
            let isLost = fate == 3
            network.append(
                .pushAnswer(
                    device: device,
                    process: process,
                    send: send,
                    isLost ? nil : answer,
                    authority.epoch
                )
            )
        case .pushAnswer(let device, let process, let send, let answer, let epoch):
            guard devices[device].process == process else { return }
            try await act(device) { world in
                if let answer {
                    try world.devices[device].pushLanded(send, answer, of: epoch)
                } else {
                    world.devices[device].pushFailed(send, wasSent: true)
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
                    epoch: question.epoch,
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

    /// Delivers the next operation's changes on the live connection, or breaks or opens it.
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
            epoch: bug == .ignoresEpochs ? nil : state.pullEpoch,
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

    /// Removes tombstones.
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
        authority.setUnknown([])
        while !network.isEmpty {
            // Each answer separately, because it may come from a lost history.
            try await deliver()
            try await check()
        }
        // Without a launch, because a running process must get there too.
        for index in devices.indices where devices[index].state != nil { try await settle(index) }
        for index in devices.indices {
            // Users with pending operations return to send them.
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
        touched.insert(device)
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
        defer { touched = [] }
        for device in devices where touched.contains(device.number) {
            guard let state = device.state, let account = device.disk.account else { continue }
            let marks = try SimulatedApp.marks { key in
                try state.replay.record(key, over: device.disk.mirror)?.value.fields()
            }
            try await checkMarks(marks, on: device, of: account)
            try checkSheets(of: account, on: device, state)
            if step % 2 == 0 { try checkReplay(state, on: device) }
        }
        try await checkNothingLost()
    }

    /// Checks that the visible state is the base with all pending operations applied in order.
    private func checkReplay(_ state: SyncState, on device: Device) throws {
        var naive = device.disk.mirror
        for sequence in state.outbox.visible {
            guard let operation = device.disk.outbox[sequence]?.operation else {
                throw violation("Nothing lost", "\(sequence) is shown but not on disk")
            }
            var records = Records(
                from: naive,
                schema: device.version.schema,
                operation: operation.context
            )
            guard (try? records.run(operation.mutation)) != nil else { continue }
            for (key, change) in records.changes { naive.records[key] = change }
        }
        for key in SimulatedApp.counters + SimulatedApp.notes + SimulatedApp.sheets {
            let visible = try state.replay.record(key, over: device.disk.mirror)?.value
            guard visible == naive.records[key] else {
                throw violation("Base ⊕ pending", "device \(device.number) shows a wrong \(key)")
            }
        }
    }

    private mutating func checkMarks(
        _ marks: [RecordKey: RecordFields],
        on device: Device,
        of account: Identifier
    ) async throws {
        for (id, operation) in accepted {
            // The first version does not show members that it does not know before they are
            // applied.
            let isHalf = !device.version.isNew && isQueued(id, on: device)
            let places =
                isHalf
                ? operation.places.filter { $0.collection != "sheets more" } : operation.places
            let seen = places.map { marks[$0]?[operation.mark]?.integer ?? 0 }
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
            guard !isRefused || operation.isPoison || operation.places.isEmpty else {
                throw violation("Independent rollback", "\(id) was refused")
            }
            if isOwn, !isRefused, !operation.isLost, seen.contains(0) {
                // Its user has signed out since, so the device shows only the base.
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

    /// Returns whether the operation was settled in a base that a sign-out discarded, and the new
    /// base is not complete yet.
    private mutating func wasForgotten(_ id: Identifier, on device: Device) async throws -> Bool {
        guard !isQueued(id, on: device),
            let operation = accepted[id], device.emptied > operation.step
        else { return false }
        let answer = try await authority.pull(
            account: operation.account,
            since: 0,
            limit: 1,
            horizon: 0,
            epoch: nil,
            operations: [id]
        )
        guard let head = answer.operations?.first?.head else { return true }
        guard device.disk.mirror.epoch == authority.epoch else { return true }
        return device.disk.mirror.position < head || device.state?.isComplete != true
    }

    /// Checks that sheets can be decoded and contain the device's latest changes.
    private func checkSheets(
        of account: Identifier,
        on device: Device,
        _ state: SyncState
    ) throws {
        for key in SimulatedApp.sheets {
            guard let shown = try state.replay.record(key, over: device.disk.mirror) else {
                continue
            }
            guard device.version.reads(shown.value, key) else {
                throw versions("device \(device.number) does not show \(key)")
            }
            guard let stored = device.disk.mirror.records[key] else { continue }
            guard device.version.isNew || stored["more"] == shown.value["more"] else {
                throw versions("device \(device.number) drops what it does not know of \(key)")
            }
            guard state.isComplete else { continue }
            let number = shown.value[SimulatedApp.member(of: device.number)]?.integer
            guard !isExpected(number, of: device, in: key, account) else { continue }
            throw violation(
                "No flicker",
                "device \(device.number) shows \(String(describing: number)) in \(key)"
            )
        }
    }

    /// Returns whether a device's member of a sheet has the latest value that the device set.
    ///
    /// After a restore a late copy of a request may set it again to the value in the lost history.
    private func isExpected(
        _ number: Int64?,
        of device: Device,
        in sheet: RecordKey,
        _ account: Identifier
    ) -> Bool {
        var wanted: Int64 = 0
        var others: Set<Int64> = []
        for operation in accepted.values
        where operation.device == device.number && operation.account == account
            && !operation.isPoison
        {
            guard let member = operation.traces.member, member.sheet == sheet else { continue }
            if !operation.isLost { wanted = member.number }
            if !operation.lostIn.isEmpty { others.insert(member.number) }
        }
        return number == wanted || number.map(others.contains) ?? false
    }

    private func versions(_ detail: String) -> Violation { violation("All versions", detail) }

    private mutating func checkNothingLost() async throws {
        var marks: [Identifier: [RecordKey: RecordFields]] = [:]
        for (id, operation) in accepted
        where operation.isTraced && !operation.isPoison && !operation.isDone && !operation.isLost {
            let device = devices[operation.device]
            guard !isQueued(id, on: device) else { continue }
            let account = operation.account
            let isDone: Bool
            if operation.places.isEmpty {
                isDone = try await done([id], account) == [id]
            } else {
                if marks[account] == nil { marks[account] = try await self.marks(of: account) }
                let done = operation.places.map { marks[account]?[$0]?[operation.mark] }
                isDone = done.allSatisfy { $0 == .integer(1) }
            }
            if isDone {
                accepted[id]?.isDone = true
                if !operation.lostIn.isEmpty { count(.sentAgain) }
            } else if let epoch = device.disk.mirror.epoch, operation.lostIn.contains(epoch) {
                // It was settled by a late answer from the lost history.
                accepted[id]?.isLost = true
                count(.forgotten)
            } else {
                throw violation("Nothing lost", "\(id) is neither queued nor applied")
            }
        }
    }

    /// Returns the marks of an account in the authority.
    private func marks(of account: Identifier) async throws -> [RecordKey: RecordFields] {
        let records = try await authority.records(of: account)
        return try SimulatedApp.marks { try records[$0]?.fields() }
    }

    private mutating func checkOperations() async throws {
        for account in accounts {
            let records = try await authority.records(of: account)
            let marks = try SimulatedApp.marks { try records[$0]?.fields() }
            for (id, operation) in accepted where operation.account == account {
                let done = operation.places.map { marks[$0]?[operation.mark]?.integer ?? 0 }
                let wanted: Set<Int64> =
                    operation.isPoison ? [0] : operation.isLost ? [0, 1] : [1]
                guard done.allSatisfy(wanted.contains) else {
                    throw violation("Exactly once", "\(id) was applied \(done) times")
                }
            }
            for sheet in SimulatedApp.sheets {
                var writers = 0
                for device in devices {
                    let number =
                        records[sheet]?[SimulatedApp.member(of: device.number)]?.integer
                    if let number, number > 0 { writers += 1 }
                    guard !isExpected(number, of: device, in: sheet, account) else { continue }
                    throw violation(
                        "All versions",
                        "\(sheet) has lost what device \(device.number) has set"
                    )
                }
                if writers > 1 { count(.shared) }
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

// Shared with the closure that decides when a device dies; used by one thread.
private final class StepCount {
    var value = -1
}
