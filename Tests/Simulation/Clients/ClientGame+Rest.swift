import Foundation
import Sanguine
import SanguineModel
import SanguineTesting

// Finishes all work, after which every device has the servers' data.
extension ClientGame {
    /// The maximum number of rounds until a condition must hold.
    private static let rounds = 3_000
    /// The maximum number of times that a reader scrolls to the end of a list.
    private static let scrolls = 3

    func rest() throws {
        note("all faults have ended")
        network.backend.recover()
        network.isOld = false
        for index in devices.indices {
            devices[index].process.clock.spare()
            devices[index].process.lifecycle.enterForeground()
            devices[index].process.connectivity.connect()
        }
        for index in devices.indices {
            try until("the sign-out of device \(index)") { devices[index].leaving == nil }
            try empty(index)
        }
        try until("the calls") { devices.allSatisfy { $0.process.calls.isZero } }
        if isOnList {
            for index in devices.indices { try writeRows(index) }
        }
        if isOnThreads { try threads.rest() }
        for index in devices.indices { try converge(index) }
        try checkDone()
        for index in devices.indices { try leave(index) }
    }

    /// Lets each user with operations on the device return until they are sent.
    private func empty(_ index: Int) throws {
        let client = devices[index].process.client
        let holder = network.holder(of: index)
        let others = Person.allCases.filter { person in
            person != holder && devices[index].deeds.contains { deeds[$0].person == person }
        }
        for person in others + [holder] {
            let current = client.accountId.flatMap { network.person($0) }
            network.setHolder(person, of: index)
            if let current, current != person {
                try run("a sign-out") { await client.signOut() }
            }
            try until(
                "\(person) is back on device \(index)",
                asking: { _ = try? await client.refresh(.account) },
                { client.accountId.flatMap { network.person($0) } == person }
            )
            try sendAll(index)
        }
    }

    private func sendAll(_ index: Int) throws {
        let client = devices[index].process.client
        try until(
            "device \(index) has sent everything",
            asking: { try? await client.synchronize() },
            { client.outbox.pending.isEmpty }
        )
    }

    /// Lets a device write to held rows when nothing else is pending.
    ///
    /// Once without other events, once during a refresh, and once with the app closed while the
    /// write settles.
    private func writeRows(_ index: Int) throws {
        for kind in [0, 1, 0, 2, 1, 2] {
            let (client, list) = (devices[index].process.client, ListQuery.entries(size))
            try run("the list") { _ = try? await client.value(of: list) }
            while client.snapshot(of: list).hasMore {
                try run("the next page") { try? await client.loadNext(list) }
            }
            let rows = client.snapshot(of: list).items.map(\.id)
            if kind == 0, let row = rows.dropLast().randomElement(using: &random) {
                writeRow(row, index, isDropped: true)
                try sendAll(index)
            }
            if kind == 1 { Task { _ = try? await client.refresh(list) } }
            for _ in 0..<Int.random(in: 0...20, using: &random) { _ = try goOn(isInTurn: false) }
            if let row = kind == 1 ? rows.first : rows.last {
                writeRow(row, index, isDropped: false)
            }
            if kind == 2 {
                devices[index].process.close(after: Int.random(in: 0...4, using: &random))
            }
            for _ in 0..<80 { _ = try goOn(isInTurn: false) }
            GameCode.spare()
            if kind == 2 { try reopen(index) }
            devices[index].process.connectivity.connect()
            try sendAll(index)
        }
    }

    /// Drops or marks a row.
    private func writeRow(_ entry: String, _ index: Int, isDropped: Bool) {
        let client = devices[index].process.client
        guard let person = client.accountId.flatMap({ network.person($0) }) else { return }
        let mark = "\(person.mark)\(deeds.count)-"
        note("device \(index) \(isDropped ? "drops" : "marks") \(entry) by \(mark)")
        let receipt =
            isDropped
            ? try? client.perform(DropEntry(mark: mark, entry: entry, lane: "lane 0", size: size))
            : try? client.perform(MarkEntry(mark: mark, entry: entry, lane: "lane 0", size: size))
        guard let receipt else { return note("which is refused") }
        let kind = isDropped ? Deed.Kind.dropped(entry) : .marked(entry)
        took(Deed(id: receipt.id, mark: mark, kind: kind, person: person), index)
    }

    /// Lets a device fetch everything, and compares it with the servers' data.
    private func converge(_ index: Int) throws {
        let client = devices[index].process.client
        guard let account = client.accountId, let person = network.person(account) else {
            throw finding("no user is signed in on device \(index)")
        }
        try succeed("a synchronization") { try await client.synchronize() }
        for number in GameBoard.numbers {
            try succeed("a refresh of board \(number)") {
                _ = try await client.refresh(.board(number))
            }
        }
        try succeed("a refresh of the list") { [size] in
            _ = try await client.refresh(.entries(size))
        }
        try succeed("a refresh of the balance") { _ = try await client.refresh(.balance) }
        let shelf = network.backend.shelf(person)
        for number in GameBoard.numbers {
            let board = shelf.boards[number] ?? GameBoard()
            try expect(client.cached(.board(number)), board, "board", index)
        }
        let entries = client.snapshot(of: .entries(size)).items
        // A refresh fetches the first page.
        try expect(entries.prefix(size), shelf.entries.prefix(size), "list", index)
        try show(index, shelf.entries)
        let authority = network.authority
        if devices[index].process.isNew {
            let tallies = authority.records(GameTally.self, of: account)
            try expect(client.records(), tallies, "tallies", index)
        } else {
            let tallies = authority.records(OldGameTally.self, of: account)
            try expect(client.records(), tallies, "tallies", index)
        }
        let fillers = authority.records(GameFiller.self, of: account)
        try expect(client.records(), fillers, "fillers", index)
        let (shown, kept) = (client.cached(.balance), network.authority.balance(of: account))
        try expect(shown?.available, kept.available, "balance", index)
        try expect(shown?.held, kept.held, "held tokens", index)
        if isOnThreads { try threads.converge(index) }
    }

    /// Lets a reader scroll to the end of the list and back, which loads the other pages.
    private func show(_ index: Int, _ kept: [GameEntry]) throws {
        let (client, list) = (devices[index].process.client, ListQuery.entries(size))
        // A page that is fetched again may report that rows follow it.
        for _ in 0..<Self.scrolls {
            while client.snapshot(of: list).hasMore {
                try run("the next page") { try? await client.loadNext(list) }
            }
            for row in client.snapshot(of: list).items {
                try run("a row to be shown") { @MainActor in
                    client.model(list).itemAppeared(row.id)
                }
                try letGo()
            }
            if !client.snapshot(of: list).hasMore { break }
        }
        try expect(client.snapshot(of: list).items, kept, "whole list", index)
    }

    private func expect<Value: Equatable>(
        _ shown: Value,
        _ kept: Value,
        _ what: String,
        _ index: Int
    ) throws {
        guard shown != kept else { return }
        throw finding("Convergence: the \(what) of device \(index): \(shown), and not \(kept)")
    }

    /// Checks that applied deeds were applied once, and refused or dropped ones never.
    private func checkDone() throws {
        var made: [String: Int] = [:]
        for person in Person.allCases {
            guard let account = network.account(person) else { continue }
            for tally in network.authority.records(GameTally.self, of: account) {
                for mark in tally.marks { made["\(tally.id.text): \(mark)", default: 0] += 1 }
                for mark in tally.more { made["\(tally.id.text) more: \(mark)", default: 0] += 1 }
                try checkMembers(of: tally, person)
            }
        }
        for deed in deeds where !deed.isUncertain {
            for place in deed.places {
                let count =
                    if case .tally = deed.kind { made["\(place): \(deed.mark)"] ?? 0 } else {
                        network.backend.count(deed.mark)
                    }
                let wanted = deed.isOver || deed.isPoison ? 0 : 1
                // A late copy of its request may have applied it again in the current history.
                guard count != wanted, !(deed.isLost && count == 0) else { continue }
                throw finding("Exactly once: '\(deed.mark)' applied \(count) times, not \(wanted)")
            }
        }
        for (input, count) in network.calls.sorted(by: { $0.key < $1.key })
        where count > 1 + repeats(of: input) {
            throw finding("Exactly once: '\(input)' was processed \(count) times")
        }
        let lost = answered.all.filter { network.calls[$0] == nil }.sorted()
        if let input = lost.first { throw finding("'\(input)' was never answered") }
    }

    /// The number of times that a call may be repeated because a restore lost the record of it.
    private func repeats(of input: String) -> Int {
        tally[.restore, default: 0] - (restores[input] ?? 0)
    }

    /// Checks that each device's member of a tally is the one set last: no other device undid it.
    private func checkMembers(of tally: GameTally, _ person: Person) throws {
        var writers = 0
        for (index, device) in devices.enumerated() {
            let writes = device.deeds.map { deeds[$0] }.filter { deed in
                guard case .set(tally.id) = deed.kind else { return false }
                return deed.person == person && !deed.isOver
            }
            if tally[index] != nil { writers += 1 }
            // After a restore a late copy of a request may have set it again.
            guard writes.allSatisfy({ !$0.isUncertain && $0.lostIn.isEmpty }) else { continue }
            try expect(tally[index], writes.last?.mark, "member of '\(tally.id)'", index)
        }
        if writers > 1 { count(.shared) }
    }

    /// Signs the last user out, after which only refused operations remain.
    private func leave(_ index: Int) throws {
        let client = devices[index].process.client
        try run("the last sign-out") { await client.signOut() }
        try checkFiles(index)
    }

    // MARK: - Waiting

    /// Runs a task to its end.
    func run(_ what: String, _ body: @escaping @Sendable () async -> Void) throws {
        let over = GameFlag()
        Task {
            await body()
            over.set()
        }
        try until(what) { over.isSet }
    }

    /// Runs a task until it succeeds.
    ///
    /// A refresh joins a fetch in flight, which may have begun long ago and time out.
    private func succeed(
        _ what: String,
        _ body: @escaping @Sendable () async throws -> Void
    ) throws {
        let hasSucceeded = GameFlag()
        try until(
            what,
            asking: {
                guard (try? await body()) != nil else { return }
                hasSucceeded.set()
            },
            { hasSucceeded.isSet }
        )
    }

    /// Lets everything run until the condition holds.
    ///
    /// - Parameters:
    ///   - what: A description of the condition.
    ///   - asking: A task that is repeated while waiting. Default: none.
    ///   - condition: The condition.
    /// - Throws: A violation found while waiting, or an error if the condition never holds.
    func until(
        _ what: String,
        asking: (@Sendable () async -> Void)? = nil,
        _ condition: () -> Bool
    ) throws {
        var over = GameFlag(isSet: true)
        for _ in 0..<Self.rounds {
            try letGo()
            guard !condition() else { return }
            if over.isSet, let asking {
                over = GameFlag()
                Task { [over] in
                    await asking()
                    over.set()
                }
            }
            advance(by: min(delay.timeToNextWake ?? .seconds(1), .seconds(10)))
        }
        throw finding("timed out waiting for: \(what)")
    }

    /// Runs all jobs and delivers all messages, including those that follow from them.
    private func letGo() throws {
        for _ in 0..<Self.rounds {
            guard try goOn() else { return }
        }
        throw finding("the devices do not come to rest")
    }

    /// Runs a job, or delivers a message if there is none.
    ///
    /// - Parameter isInTurn: Whether to deliver the oldest message. Default: yes.
    /// - Returns: Whether there was a job or a message.
    /// - Throws: A violation found while waiting.
    private func goOn(isInTurn: Bool = true) throws -> Bool {
        let messages = network.messages
        if JobQueue.shared.count > 0 {
            step += 1
            try runJob()
            try buryTheDead()
            try check()
        } else if isInTurn, let message = messages.first {
            note(message.line)
            network.deliver(message.number)
        } else if let message = messages.randomElement(using: &random) {
            note(message.line)
            network.deliver(message.number)
        } else {
            return false
        }
        return true
    }
}
