import SanguineModel

/// Which calls run, and which wait: bounded in all, by account and by function, and fair between
/// accounts.
///
/// Accounts that wait take turns; the calls of one account keep their order, except that one whose
/// function is at its limit is stepped over. So an account with a thousand calls delays another
/// one's first call by one call, and not by a thousand.
///
/// Invariants, checked after each event in debug builds:
/// 1. No more calls run than the limits allow, of all, of an account, of an address, of a
///    function, and of a function by an account.
/// 2. A call that may run does not wait: what waits is held back by a limit.
/// 3. `turns` has each account that waits once.
struct CallQueueState: Sendable {
    /// A call that wants to run.
    struct Ticket: Hashable, Sendable {
        var number: UInt64
        var account: Identifier
        /// Where the request came from, if it came from anywhere.
        var address: String?
        var function: String
        /// Calls of the function that may run at a time; `nil` for any number.
        var running: Int?
        /// Of them by one account.
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
    private var turns: [Identifier] = []

    /// Creates a queue.
    ///
    /// - Parameters:
    ///   - limit: How many calls run at a time.
    ///   - accountShare: How many of them one account may have.
    ///   - addressShare: How many of them may come from one address.
    init(limit: Int, accountShare: Int, addressShare: Int) {
        self.limit = limit
        self.accountShare = accountShare
        self.addressShare = addressShare
    }

    /// How many run.
    var running: Int { count }

    /// How many wait.
    var waitingCount: Int { waiting.values.reduce(0) { $0 + $1.count } }

    /// Lets a call run, unless a limit holds it back.
    ///
    /// It overtakes nobody who could run: whoever waits is held back by a limit.
    mutating func tryStart(_ ticket: Ticket) -> Bool {
        guard mayRun(ticket) else { return false }
        start(ticket)
        return true
    }

    /// Puts a call behind those of its account.
    ///
    /// - Returns: Whether it runs at once.
    mutating func enter(_ ticket: Ticket) -> Bool {
        if tryStart(ticket) { return true }
        if waiting[ticket.account] == nil { turns.append(ticket.account) }
        waiting[ticket.account, default: []].append(ticket)
        checkInvariants()
        return false
    }

    /// A call has ended.
    ///
    /// - Returns: Those that run now.
    mutating func leave(_ ticket: Ticket) -> [Ticket] {
        count -= 1
        Self.subtract(ticket.account, from: &accounts)
        if let address = ticket.address { Self.subtract(address, from: &addresses) }
        Self.subtract(ticket.function, from: &functions)
        Self.subtract(Pair(account: ticket.account, function: ticket.function), from: &pairs)
        return startMore()
    }

    /// A call that waits gives up.
    ///
    /// - Returns: Whether it has waited.
    mutating func giveUp(_ ticket: Ticket) -> Bool {
        guard let place = waiting[ticket.account]?.firstIndex(of: ticket) else { return false }
        remove(at: place, of: ticket.account)
        return true
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

    /// Takes the next call that may run; its account goes to the end of the line.
    private mutating func nextTicket() -> Ticket? {
        guard count < limit else { return nil }
        for (turn, account) in turns.enumerated() {
            guard let tickets = waiting[account],
                let place = tickets.firstIndex(where: { mayRun($0) })
            else { continue }
            turns.remove(at: turn)
            turns.append(account)
            remove(at: place, of: account)
            return tickets[place]
        }
        return nil
    }

    private mutating func remove(at place: Int, of account: Identifier) {
        waiting[account]?.remove(at: place)
        guard waiting[account]?.isEmpty == true else { return }
        waiting[account] = nil
        turns.removeAll { $0 == account }
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
    }
}
