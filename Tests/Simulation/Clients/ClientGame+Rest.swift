import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization

// All comes to rest, and then everybody has what the servers have.
extension ClientGame {
    /// How much happens at most until something is through that has to come to an end.
    private static let rounds = 3_000

    func rest() throws {
        note("all is well from now on")
        network.backend.recover()
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
        for index in devices.indices { try converge(index) }
        try checkDone()
        for index in devices.indices { try leave(index) }
    }

    /// Has everybody who left something on the device come back until it is sent.
    private func empty(_ index: Int) throws {
        let client = devices[index].process.client
        let holder = network.holder(of: index)
        let others = Person.allCases.filter { person in
            person != holder && devices[index].deeds.contains { deeds[$0].person == person }
        }
        for person in others + [holder] {
            let present = client.accountId.flatMap { network.person($0) }
            network.setHolder(person, of: index)
            if let present, present != person {
                try run("a sign-out") { await client.signOut() }
            }
            try until(
                "\(person) is back on device \(index)",
                asking: { _ = try? await client.refresh(.account) },
                { client.accountId.flatMap { network.person($0) } == person }
            )
            try until(
                "device \(index) has sent everything",
                asking: { try? await client.synchronize() },
                { client.outbox.pending.isEmpty }
            )
        }
    }

    /// Has a device fetch everything, and compares it with what there is.
    private func converge(_ index: Int) throws {
        let client = devices[index].process.client
        guard let account = client.accountId, let person = network.person(account) else {
            throw finding("nobody is signed in on device \(index)")
        }
        try run("a synchronization") { try? await client.synchronize() }
        try run("a refresh") {
            for number in GameBoard.numbers { _ = try? await client.refresh(.board(number)) }
            _ = try? await client.refresh(.entries)
            _ = try? await client.refresh(.balance)
        }
        let shelf = network.backend.shelf(person)
        for number in GameBoard.numbers {
            let board = shelf.boards[number] ?? GameBoard()
            try expect(client.cached(.board(number)), board, "board", index)
        }
        let entries = client.snapshot(of: .entries).items
        // A refresh fetches the first page.
        try expect(entries.prefix(3), shelf.entries.prefix(3), "list", index)
        let authority = network.authority
        let tallies = authority.records(GameTally.self, of: account)
        try expect(client.records(), tallies, "tallies", index)
        let fillers = authority.records(GameFiller.self, of: account)
        try expect(client.records(), fillers, "fillers", index)
        let (shown, kept) = (client.cached(.balance), network.authority.balance(of: account))
        try expect(shown?.available, kept.available, "balance", index)
        try expect(shown?.held, kept.held, "held tokens", index)
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

    /// What was done is done once, and what was refused or dropped never.
    private func checkDone() throws {
        var made: [String: Int] = [:]
        for person in Person.allCases {
            guard let account = network.account(person) else { continue }
            for tally in network.authority.records(GameTally.self, of: account) {
                for mark in tally.marks { made["\(tally.id.text): \(mark)", default: 0] += 1 }
            }
        }
        for deed in deeds where !deed.isUncertain {
            for place in deed.places {
                let count =
                    if case .tally = deed.kind { made["\(place): \(deed.mark)"] ?? 0 } else {
                        network.backend.count(deed.mark)
                    }
                let wanted = deed.isOver || deed.isPoison ? 0 : 1
                guard count != wanted else { continue }
                throw finding("Exactly once: '\(deed.mark)' was done \(count) times, not \(wanted)")
            }
        }
        for (input, count) in network.calls.sorted(by: { $0.key < $1.key }) where count > 1 {
            throw finding("Exactly once: '\(input)' was worked on \(count) times")
        }
        let lost = answered.all.filter { network.calls[$0] == nil }.sorted()
        if let input = lost.first { throw finding("'\(input)' was answered by nobody") }
    }

    /// The last one leaves, and nothing of anybody stays but what was refused.
    private func leave(_ index: Int) throws {
        let client = devices[index].process.client
        try run("the last sign-out") { await client.signOut() }
        try checkFiles(index)
    }

    // MARK: - Until it is so

    /// Runs something to its end.
    private func run(_ what: String, _ body: @escaping @Sendable () async -> Void) throws {
        let over = Box()
        Task {
            await body()
            over.set()
        }
        try until(what) { over.isSet }
    }

    /// Lets everything go on until it is so.
    ///
    /// - Parameters:
    ///   - what: What is waited for.
    ///   - asking: What somebody does about it, again and again. Default: nothing.
    ///   - condition: What is to be so.
    /// - Throws: What was found meanwhile, or that it never was so.
    private func until(
        _ what: String,
        asking: (@Sendable () async -> Void)? = nil,
        _ condition: () -> Bool
    ) throws {
        var over = Box(isSet: true)
        for _ in 0..<Self.rounds {
            try letGo()
            guard !condition() else { return }
            if over.isSet, let asking {
                over = Box()
                Task { [over] in
                    await asking()
                    over.set()
                }
            }
            advance(by: min(delay.timeToNextWake ?? .seconds(1), .seconds(10)))
        }
        throw finding("waited in vain for this: \(what)")
    }

    /// Runs all jobs and delivers all messages that there are, and those that follow from them.
    private func letGo() throws {
        for _ in 0..<Self.rounds {
            if JobQueue.shared.count > 0 {
                step += 1
                try runJob()
                try buryTheDead()
                try check()
            } else if let message = network.messages.first {
                network.deliver(message.number)
            } else {
                return
            }
        }
        throw finding("the devices do not come to rest")
    }
}

/// Whether something has happened.
///
/// Mutable state: the answer, by its mutex.
private final class Box: Sendable {
    private let state: Mutex<Bool>

    init(isSet: Bool = false) { state = Mutex(isSet) }

    var isSet: Bool { state.withLock { $0 } }

    func set() { state.withLock { $0 = true } }
}
