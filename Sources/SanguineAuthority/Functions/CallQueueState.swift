import SanguineModel

/// Decides which runs are in progress and which wait: limited in total, per account and per
/// function, and fair between accounts.
///
/// Each call that wants a run has a ticket. A run that several calls want starts with the first of
/// their tickets that may start; it counts for that ticket's account, and the other calls leave the
/// queue.
///
/// Waiting accounts take turns. The calls of one account keep their order, except that a call whose
/// function is at its limit is skipped. So an account with a thousand calls delays another
/// account's first call by one call, and not by a thousand.
///
/// Invariants, checked after each event in debug builds:
/// 1. No more calls run than the limits allow: in total, per account, per address, per function,
///    and per function and account.
/// 2. A call that may run does not wait: every waiting call is held back by a limit.
/// 3. `turns` contains each waiting account once.
/// 4. A waiting ticket is in its account's queue and among those of its run.
struct CallQueueState: Sendable {
    /// A call that waits for its run, or that the run counts for.
    struct Ticket: Hashable, Sendable {
        var number: UInt64
        /// The run that the call wants, possibly with other calls.
        var run: UInt64
        var account: Identifier
        /// The address of the request; `nil` if there was no request.
        var address: String?
        var function: String
        /// The number of calls of the function that may run concurrently; `nil` for any number.
        var running: Int?
        /// The number of these that one account may have.
        var runningPerAccount: Int?
    }

    private struct Pair: Hashable {
        var account: Identifier
        var function: String
    }

    private let limit: Int
    private let accountShare: Int
    private let addressShare: Int
    private var count = 0
    private var accounts: [Identifier: Int] = [:]
    private var addresses: [String: Int] = [:]
    private var functions: [String: Int] = [:]
    private var pairs: [Pair: Int] = [:]
    private var waiting: [Identifier: [Ticket]] = [:]
    /// The waiting tickets, by run.
    private var runs: [UInt64: [Ticket]] = [:]
    private var turns: [Identifier] = []

    /// Creates a queue.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of concurrent calls.
    ///   - accountShare: The maximum number of these for one account.
    ///   - addressShare: The maximum number of these from one address.
    init(limit: Int, accountShare: Int, addressShare: Int) {
        self.limit = limit
        self.accountShare = accountShare
        self.addressShare = addressShare
    }

    /// The number of runs in progress.
    var running: Int { count }

    /// The number of waiting runs.
    var waitingCount: Int { runs.count }

    /// Lets the run of a call start, unless a limit holds it back.
    ///
    /// It overtakes no call that could run, because each waiting call is held back by a limit.
    mutating func tryStart(_ ticket: Ticket) -> Bool {
        guard mayRun(ticket) else { return false }
        start(ticket)
        return true
    }

    /// Adds a call behind those of its account, unless its run starts at once.
    ///
    /// - Returns: Whether the run starts at once.
    mutating func enter(_ ticket: Ticket) -> Bool {
        if tryStart(ticket) { return true }
        if waiting[ticket.account] == nil { turns.append(ticket.account) }
        waiting[ticket.account, default: []].append(ticket)
        runs[ticket.run, default: []].append(ticket)
        checkInvariants()
        return false
    }

    /// Ends the run that has started with the ticket.
    ///
    /// - Returns: The tickets whose runs start now.
    mutating func leave(_ ticket: Ticket) -> [Ticket] {
        count -= 1
        Self.subtract(ticket.account, from: &accounts)
        if let address = ticket.address { Self.subtract(address, from: &addresses) }
        Self.subtract(ticket.function, from: &functions)
        Self.subtract(Pair(account: ticket.account, function: ticket.function), from: &pairs)
        return startMore()
    }

    /// Removes a waiting call; its run continues to wait if another call wants it.
    ///
    /// - Returns: Whether the call was waiting.
    mutating func giveUp(_ ticket: Ticket) -> Bool {
        guard let index = runs[ticket.run]?.firstIndex(of: ticket) else { return false }
        runs[ticket.run]?.remove(at: index)
        if runs[ticket.run]?.isEmpty == true { runs[ticket.run] = nil }
        removeFromLines([ticket])
        checkInvariants()
        return true
    }

    /// Ends the wait of a run; all of its calls leave the queue.
    mutating func giveUp(run: UInt64) {
        guard let tickets = runs.removeValue(forKey: run) else { return }
        removeFromLines(tickets)
        checkInvariants()
    }

    private mutating func startMore() -> [Ticket] {
        var started: [Ticket] = []
        while let ticket = nextTicket() {
            start(ticket)
            started.append(ticket)
        }
        checkInvariants()
        return started
    }

    /// Returns the next ticket whose run may start; its account moves to the end of the queue.
    private mutating func nextTicket() -> Ticket? {
        guard count < limit else { return nil }
        for (turn, account) in turns.enumerated() {
            guard let ticket = waiting[account]?.first(where: { mayRun($0) }) else { continue }
            turns.remove(at: turn)
            turns.append(account)
            return ticket
        }
        return nil
    }

    private mutating func removeFromLines(_ tickets: [Ticket]) {
        let numbers = Set(tickets.map(\.number))
        var isEmptied = false
        for account in Set(tickets.map(\.account)) {
            waiting[account]?.removeAll { numbers.contains($0.number) }
            guard waiting[account]?.isEmpty == true else { continue }
            waiting[account] = nil
            isEmptied = true
        }
        if isEmptied { turns.removeAll { waiting[$0] == nil } }
    }

    private func mayRun(_ ticket: Ticket) -> Bool {
        let pair = Pair(account: ticket.account, function: ticket.function)
        let fromAddress = ticket.address.map { addresses[$0, default: 0] } ?? 0
        return count < limit && accounts[ticket.account, default: 0] < accountShare
            && fromAddress < addressShare
            && functions[ticket.function, default: 0] < ticket.running ?? .max
            && pairs[pair, default: 0] < ticket.runningPerAccount ?? .max
    }

    private mutating func start(_ ticket: Ticket) {
        if let tickets = runs.removeValue(forKey: ticket.run) { removeFromLines(tickets) }
        count += 1
        accounts[ticket.account, default: 0] += 1
        if let address = ticket.address { addresses[address, default: 0] += 1 }
        functions[ticket.function, default: 0] += 1
        pairs[Pair(account: ticket.account, function: ticket.function), default: 0] += 1
    }

    private static func subtract<Name: Hashable>(_ name: Name, from counts: inout [Name: Int]) {
        let rest = (counts[name] ?? 1) - 1
        counts[name] = rest > 0 ? rest : nil
    }

    private func checkInvariants() {
        assert(count <= limit && accounts.values.allSatisfy { $0 <= accountShare })
        assert(addresses.values.allSatisfy { $0 <= addressShare })
        assert(accounts.values.reduce(0, +) == count)
        assert(Set(turns) == Set(waiting.keys) && turns.count == waiting.count)
        assert(Set(waiting.values.joined()) == Set(runs.values.joined()))
    }
}
