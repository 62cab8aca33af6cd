import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization

/// The number of calls that a process has in flight.
///
/// Mutable state: their number, protected by a mutex.
final class CallCount: Sendable {
    private let count = Mutex(0)

    var isZero: Bool { count.withLock { $0 == 0 } }

    func begin() { count.withLock { $0 += 1 } }
    func end() { count.withLock { $0 -= 1 } }
}

/// The metered calls that received their answer.
///
/// Mutable state: the inputs, protected by a mutex.
final class WatchedCalls: Sendable {
    private let inputs = Mutex<Set<String>>([])

    func add(_ input: String) { _ = inputs.withLock { $0.insert(input) } }

    var all: Set<String> { inputs.withLock { $0 } }
}

// Events between two jobs.
extension ClientGame {
    func event() throws {
        let device = Int.random(in: 0..<devices.count, using: &random)
        if isOnList, chance(3) { return try listEvent(device) }
        if isOnThreads, chance(4) { return threads.event(device) }
        let kind = Int.random(in: 0..<105, using: &random)
        switch kind {
        case 0..<48: carry()
        case 48..<66: perform(device)
        case 66..<74: read(device)
        case 74..<79: synchronize(device)
        case 79..<85: changeElsewhere()
        case 85..<87: call(device)
        case 87..<91: pass()
        case 91..<94: drop(device)
        case 94..<96: if chance(3) { try reopen(device) } else { die(device) }
        case 96..<97: signOut(device)
        case 97..<100: disturb(device)
        case 100: deploy()
        case 101, 102: keepCopy()
        // A restored copy may contain calls that only the expiry of their holds ends.
        default: if !isOnThreads { restoreCopy() }
        }
    }

    /// Makes the authority forget a mutation or know it again.
    private func deploy() {
        network.isOld.toggle()
        note("the authority is \(network.isOld ? "an older" : "the current") version")
    }

    private func keepCopy() {
        note("a copy is made")
        copy = (network.authority.copy(), network.known)
    }

    /// Restores the authority's data from the copy; all later data is lost.
    private func restoreCopy() {
        // A restore must not lose an account: its person would get a different one.
        guard let copy, copy.people == network.known, !network.isSigningIn else { return }
        note("the copy is restored")
        count(.restore)
        let former = network.epoch
        let done = deeds.indices.filter { deeds[$0].isOfRecords && isDone($0) }
        network.authority.restore(copy.data)
        for place in done {
            deeds[place].isDone = false
            guard !isDone(place) else { continue }
            deeds[place].lostIn.insert(former)
            if deeds[place].isSettled { lose(place) }
        }
    }

    /// Marks an operation that is not sent again because its device had settled it.
    func lose(_ place: Int) {
        guard !deeds[place].isLost else { return }
        note("\(deeds[place].mark) is lost with its history")
        deeds[place].isLost = true
        count(.forgotten)
    }

    /// Delivers, loses, delays or duplicates a message.
    private func carry() {
        let messages = network.messages
        guard !messages.isEmpty else { return }
        let message = messages[Int.random(in: 0..<messages.count, using: &random)]
        let line = message.line
        let kind = Int.random(in: 0..<20, using: &random)
        if message.caller == nil, message.answer == nil { count(.late) }
        if message.isStream { count(.live) }
        switch kind {
        case 0:
            note("\(line) is lost")
            count(.loss)
            network.lose(message.number, isLate: false)
        case 1:
            note("\(line) is lost, or late")
            count(.loss)
            network.lose(message.number, isLate: true)
        case 2 where message.answer == nil && !message.isStream:
            note("\(line) arrives twice")
            count(.double)
            network.double(message.number)
            network.deliver(message.number)
        default:
            note(line)
            network.deliver(message.number)
        }
    }

    func perform(_ index: Int) {
        let device = devices[index]
        guard let account = device.process.client.accountId, let person = network.person(account)
        else { return }
        let poison = chance(8) ? Deed.poison : ""
        let mark = "\(person.mark)\(deeds.count)-\(poison)"
        // Some deeds wait for each other, and some do not.
        let lane = chance(3) ? mark : "lane \(Int.random(in: 0...1, using: &random))"
        let number = Int.random(in: GameBoard.numbers, using: &random)
        let client = device.process.client
        let kind: Deed.Kind
        let result: Result<Receipt, any Error>
        switch Int.random(in: isOnList ? 4..<8 : -5..<8, using: &random) {
        case -5 ..< -2:
            let id = GameTally.ids[chance(3) ? number : 0]
            kind = .set(id)
            guard let set = try? change(id, to: mark, index) else { return }
            result = Result { try client.perform(set) }
        case -2..<2:
            let tallies = chance(3) ? GameTally.ids : [GameTally.ids[number]]
            let depths: [Deed.Depth] = device.process.isNew ? [.marks, .both, .more] : [.marks]
            let depth = depths.randomElement(using: &random) ?? .marks
            kind = .tally(tallies, depth)
            result = Result { try self.mark(tallies, mark, depth, lane, index) }
        case 2, 3:
            kind = .board(number)
            let mutation = MarkBoard(mark: mark, board: number, lane: lane, settles: chance(3))
            result = Result { try client.perform(mutation) }
        case 4:
            kind = .added
            let mutation = AddEntry(mark: mark, lane: lane, isLast: chance(2), size: size)
            result = Result { try client.perform(mutation) }
        case 5, 6:
            let (entry, order) = anyEntry(of: person, index) ?? ("row-\(number)", lane)
            kind = .marked(entry)
            let mutation = MarkEntry(mark: mark, entry: entry, lane: order, size: size)
            result = Result { try client.perform(mutation) }
        default:
            let entry = "row-\(Int.random(in: 0..<max(7, rows), using: &random))"
            guard isOnList || chance(3) else { return }
            kind = .dropped(entry)
            let mutation = DropEntry(mark: mark, entry: entry, lane: lane, size: size)
            result = Result { try client.perform(mutation) }
        }
        note("device \(index) performs \(kind) \(mark) in \(lane)")
        guard let receipt = try? result.get() else { return note("which is refused: \(result)") }
        took(Deed(id: receipt.id, mark: mark, kind: kind, person: person), index)
    }

    /// Adds a deed that a device has accepted to the checks.
    func took(_ deed: Deed, _ index: Int) {
        var deed = deed
        deed.isUncertain = devices[index].process.remains != nil
        deeds.append(deed)
        devices[index].deeds.append(deeds.count - 1)
        devices[index].stay.deeds.insert(deeds.count - 1)
    }

    /// Returns a mutation that changes the device's member of a tally.
    ///
    /// - Returns: `nil` if the device does not show the tally.
    private func change(_ id: RecordID, to mark: String, _ index: Int) throws -> SetFields? {
        func change<Tally: GameTallyForm>(_: Tally.Type) throws -> SetFields? {
            guard var tally = devices[index].process.client.record(Tally.self, id) else {
                return nil
            }
            guard world.fault == .writesWholeRecords else {
                return try SetFields(tally) { $0[index] = mark }
            }
            tally[index] = mark
            return SetFields(Tally.self, id, try RecordValue(tally).fields())
        }
        // Their order matters: all are in one lane, and none is refused.
        guard !mark.contains(Deed.poison) else { return nil }
        return devices[index].process.isNew
            ? try change(GameTally.self) : try change(OldGameTally.self)
    }

    /// Performs a mutation that leaves its mark in tallies, in the version of the device's app.
    private func mark(
        _ tallies: [RecordID],
        _ mark: String,
        _ depth: Deed.Depth,
        _ lane: String,
        _ index: Int,
        supersedes: GameSupersession? = nil
    ) throws -> Receipt {
        let process = devices[index].process
        guard process.isNew else {
            return try process.client.perform(
                OldMarkTally(mark: mark, tallies: tallies, lane: lane, supersedes: supersedes)
            )
        }
        if case .more = depth {
            let mutation = DeepenTally(mark: mark, tallies: tallies, lane: lane)
            return try process.client.perform(mutation)
        }
        var mutation = MarkTally(mark: mark, tallies: tallies, lane: lane, supersedes: supersedes)
        if case .both = depth { mutation.isDeep = true }
        return try process.client.perform(mutation)
    }

    private func read(_ index: Int) {
        let client = devices[index].process.client
        let number = Int.random(in: GameBoard.numbers, using: &random)
        let kind = Int.random(in: 0..<9, using: &random)
        let (entry, list) = ("row-\(number)", ListQuery.entries(size))
        note("device \(index) reads \(kind)")
        Task {
            switch kind {
            case 0: _ = try? await client.value(of: .balance)
            case 1: _ = try? await client.refresh(.balance)
            case 2: _ = try? await client.value(of: .board(number))
            case 3: _ = try? await client.refresh(.board(number))
            case 4: _ = try? await client.value(of: list)
            case 5: _ = try? await client.refresh(list)
            case 6: _ = try? await client.refresh(.entry(entry))
            default: try? await client.loadNext(list)
            }
        }
    }

    private func synchronize(_ index: Int) {
        let client = devices[index].process.client
        note("device \(index) synchronizes")
        Task { try? await client.synchronize() }
    }

    /// Changes data as another device of the person or support would.
    private func changeElsewhere() {
        let person: Person = chance(3) ? .bob : .ada
        guard let account = network.account(person) else { return }
        let mark = "\(person.mark)else-\(step)"
        let number = Int.random(in: GameBoard.numbers, using: &random)
        let kind = Int.random(in: 0..<6, using: &random)
        note("elsewhere \(kind) of \(person)")
        switch kind {
        case 0:
            let id = GameTally.ids[number]
            let isNew = chance(2)
            try? network.authority.change(of: account) { records in
                func change<Tally: GameTallyForm>(_: Tally.Type) {
                    var tally = records.get(Tally.self, id) ?? Tally(id: id)
                    tally.marks.append(mark)
                    records.set(tally)
                }
                if isNew { change(GameTally.self) } else { change(OldGameTally.self) }
            }
        case 1:
            network.backend.change(person) {
                $0.boards[number, default: GameBoard()].marks.append(mark)
            }
        case 2: network.backend.change(person) { $0.insert(GameEntry(id: mark), isLast: false) }
        case 3: network.authority.grant(20, to: account)
        case 4: try? network.authority.spend(3, of: account)
        default: network.authority.forgetDeletions(of: account)
        }
    }

    private func call(_ index: Int) {
        let (client, calls) = (devices[index].process.client, devices[index].process.calls)
        guard client.accountId != nil else { return }
        let input = "call \(step)"
        restores[input] = tally[.restore, default: 0]
        note("device \(index) begins \(input)")
        count(.call)
        calls.begin()
        Task { [answered] in
            if (try? await client.call(GameCall(input: input))) != nil { answered.add(input) }
            calls.end()
        }
    }

    private func pass() {
        let next = delay.timeToNextWake ?? .seconds(1)
        let time = chance(3) ? .seconds(Int.random(in: 1...400, using: &random)) : next
        note("\(time) pass")
        advance(by: time)
    }

    func advance(by time: Duration) {
        wall.advance(by: time)
        delay.advance(by: time)
    }

    /// Discards, withdraws, supersedes or retries an operation in the outbox.
    private func drop(_ index: Int) {
        let device = devices[index]
        let outbox = device.process.client.outbox
        let mine = device.deeds.filter { !deeds[$0].isDiscarded && !deeds[$0].isUncertain }
        let refused = Set(outbox.refused.map(\.id))
        let pending = Set(outbox.pending.map(\.id))
        let open = mine.filter {
            refused.contains(deeds[$0].id) || pending.contains(deeds[$0].id)
        }
        guard let place = open.randomElement(using: &random) else { return }
        let id = deeds[place].id
        if refused.contains(id), chance(2) {
            note("device \(index) retries \(deeds[place].mark)")
            guard let receipt = try? outbox.retry(id) else { return }
            guard device.process.remains == nil else {
                (deeds[place].isUncertain, deeds[place].otherId) = (true, receipt.id)
                return
            }
            (deeds[place].id, deeds[place].isRefused) = (receipt.id, false)
            devices[index].stay.deeds.insert(place)
            return
        }
        // A deed that names the poison is refused as well.
        if chance(2), pending.contains(id), !deeds[place].isPoison {
            return supersede(place, index)
        }
        let isWithdrawn = chance(2)
        note("device \(index) \(isWithdrawn ? "withdraws" : "discards") \(deeds[place].mark)")
        let isTaken =
            isWithdrawn
            ? (try? outbox.withdraw(id)) == true : (try? outbox.discard(id)) != nil
        dropped(place, index, isTaken, as: isWithdrawn ? .withdrawal : .discard)
    }

    private func dropped(_ place: Int, _ index: Int, _ isTaken: Bool, as turn: ClientGameTurn) {
        if devices[index].process.remains != nil {
            deeds[place].isUncertain = true
        } else if isTaken {
            deeds[place].isDiscarded = true
            count(turn)
        }
    }

    /// Undoes a queued operation or replaces it with another.
    private func supersede(_ place: Int, _ index: Int) {
        let client = devices[index].process.client
        let deed = deeds[place]
        guard let old = client.outbox.pending.first(where: { $0.id == deed.id }) else { return }
        // A sent operation is not undone: its undoing would have to be applied, and leaves no mark.
        let isUndone = old.phase == .queued && chance(2)
        let mark = "\(deed.person.mark)\(deeds.count)-"
        let how = GameSupersession(mark: deed.mark, isUndone: isUndone)
        let result: Result<Receipt, any Error>
        switch deed.kind {
        case .tally(let tallies, .marks):
            result = Result {
                try self.mark(tallies, mark, .marks, old.lane, index, supersedes: how)
            }
        case .board(let number):
            let mutation = MarkBoard(
                mark: mark,
                board: number,
                lane: old.lane,
                settles: false,
                supersedes: how
            )
            result = Result { try client.perform(mutation) }
        default: return
        }
        note("device \(index) \(isUndone ? "undoes" : "replaces") \(deed.mark) with \(mark)")
        let receipt = try? result.get()
        dropped(place, index, receipt != nil && old.phase == .queued, as: .superseded)
        guard !isUndone, let receipt else { return }
        took(Deed(id: receipt.id, mark: mark, kind: deed.kind, person: deed.person), index)
    }

    // MARK: - Ends

    private func die(_ index: Int) {
        if chance(2) {
            count(.death)
            note("device \(index) is killed")
            devices[index].process.die()
        } else {
            let looks = Int.random(in: 0...6, using: &random)
            note("device \(index) is to be killed at look \(looks)")
            count(.deathWithin)
            devices[index].process.doom(after: looks)
        }
    }

    private func signOut(_ index: Int) {
        let device = devices[index]
        guard device.leaving == nil, device.process.client.accountId != nil else { return }
        let next: Person = chance(2) ? .ada : .bob
        note("device \(index) is signed out, and \(next) takes it")
        count(.signOut)
        let leaving = ClientGameDevice.Leaving()
        devices[index].leaving = leaving
        let client = device.process.client
        network.setHolder(next, of: index)
        Task {
            leaving.begin()
            await client.signOut()
            leaving.end()
        }
    }

    private func disturb(_ index: Int) {
        let process = devices[index].process
        let kind = Int.random(in: 0..<8, using: &random)
        note("disturbance \(kind)")
        switch kind {
        case 0: network.authority.expireTokens()
        case 1: network.authority.endStreams()
        case 2:
            if process.lifecycle.isForeground.value {
                process.lifecycle.enterBackground()
            } else {
                process.lifecycle.enterForeground()
            }
        case 3:
            if process.connectivity.isOnline.value {
                process.connectivity.disconnect()
            } else {
                process.connectivity.connect()
            }
        case 4: network.authority.ping()
        case 5:
            let problem = Problem(.overloaded, "Wait.", retryAfter: 2)
            network.authority.fail(chance(2) ? "/v1/sync/push" : "/v1/sync/pull", with: problem)
        case 6: if chance(4) { network.authority.endSessions() }
        default: process.client.invalidateAll()
        }
    }
}
