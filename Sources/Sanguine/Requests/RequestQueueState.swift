/// Decides which reads may be sent to a host now, and which must wait.
///
/// Each host has a number of slots (`slots`). A request that finds a free slot is sent; others wait
/// in three lines, one for each ``FetchPriority``, in the order in which they came. A request that
/// is raised moves to the position in the higher line that its age gives it.
///
/// Only some of the slots are open to `.prefetch`, so that an awaited request soon finds a slot,
/// however many prefetches there are. A prefetch that is raised while in flight no longer counts as
/// one.
///
/// No line starves: a line that has been passed over in favor of higher ones ``Limits/patience``
/// times, although it could be served, gets the next slot.
///
/// If too many requests wait, the least important one is refused: the newest of the lowest
/// priority, which may be the incoming one.
///
/// The owner numbers requests in ascending order, but they may be added in another order: the
/// number is their age. The state performs no I/O and reads no clock.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. At most `slots` requests of a host are in flight, and at most `prefetchSlots` prefetches.
/// 2. A request waits only if no slot is free that is open to it.
/// 3. At most `waiting` requests of a host wait; each is in one line, sorted by number.
/// 4. No line that could be served is passed over more than `patience + 1` times.
/// 5. A host without requests is removed.
struct RequestQueueState: Sendable {
    struct Limits: Hashable, Sendable {
        /// The maximum number of requests to one host in flight.
        let slots: Int
        /// The maximum number of these with the priority `.prefetch`.
        let prefetchSlots: Int
        /// The maximum number of requests that wait for one host.
        let waiting: Int
        /// The number of times a line is passed over before it gets the next slot.
        let patience: Int

        init(
            slots: Int = ClientLimits.readsPerHost,
            prefetchSlots: Int = ClientLimits.prefetchesPerHost,
            waiting: Int = ClientLimits.waitingReadsPerHost,
            patience: Int = ClientLimits.readPatience
        ) {
            self.slots = min(max(1, slots), ClientLimits.mostReadsPerHost)
            // Never all of them, unless there is only one.
            self.prefetchSlots = max(1, min(prefetchSlots, self.slots - 1))
            self.waiting = max(0, waiting)
            self.patience = max(1, patience)
        }
    }

    /// The actions that the owner must perform.
    struct Actions: Hashable, Sendable {
        /// The requests to send, in this order.
        var granted: [UInt64] = []
        /// The request that is refused because too many wait.
        var refused: UInt64?

        static let nothing = Actions()
    }

    private struct Request {
        let host: String
        var priority: FetchPriority
        var isUnderWay: Bool
    }

    fileprivate struct Line {
        var waiting: [UInt64] = []  // At most a thousand, so moving them is cheap.
        var passedOver = 0
    }

    private struct Host {
        var underWay = 0
        var prefetches = 0
        var lines = [Line](repeating: Line(), count: FetchPriority.allCases.count)

        var waiting: Int { lines.reduce(0) { $0 + $1.waiting.count } }
        var isIdle: Bool { underWay == 0 && lines.allSatisfy(\.waiting.isEmpty) }
    }

    let limits: Limits
    private var requests: [UInt64: Request] = [:]
    private var hosts: [String: Host] = [:]

    init(limits: Limits = Limits()) { self.limits = limits }

    // MARK: - Queries

    /// Returns the number of requests to the host in flight.
    func underWay(to host: String) -> Int { hosts[host]?.underWay ?? 0 }

    /// Returns the number of waiting requests to the host.
    func waiting(for host: String) -> Int { hosts[host]?.waiting ?? 0 }

    /// Returns the number of waiting requests to the host with this priority.
    func waiting(for host: String, of priority: FetchPriority) -> Int {
        hosts[host]?.lines[priority.rawValue].waiting.count ?? 0
    }

    /// The hosts with requests that wait or are in flight, in no particular order.
    var hostNames: [String] { Array(hosts.keys) }

    /// Returns the request's priority; `nil` if there is no such request.
    func priority(of number: UInt64) -> FetchPriority? { requests[number]?.priority }

    /// Whether no requests are waiting or in flight.
    var isIdle: Bool { hosts.isEmpty }

    // MARK: - Events

    /// Adds a request.
    mutating func enter(_ number: UInt64, host name: String, priority: FetchPriority) -> Actions {
        defer { checkInvariants(of: name) }
        var host = hosts[name] ?? Host()
        defer { hosts[name] = host }
        requests[number] = Request(host: name, priority: priority, isUnderWay: false)
        host.lines[priority.rawValue].insert(number)
        let granted = grant(in: &host)
        guard granted.isEmpty, host.waiting > limits.waiting else {
            return Actions(granted: granted)
        }
        // Lines are sorted from the lowest priority to the highest.
        let line = host.lines.firstIndex { !$0.waiting.isEmpty } ?? priority.rawValue
        let refused = host.lines[line].waiting.last ?? number
        host.lines[line].remove(refused)
        requests[refused] = nil
        return Actions(refused: refused)
    }

    /// Raises the priority of a request.
    ///
    /// Priorities never decrease; a request that has ended is ignored.
    mutating func raise(_ number: UInt64, to priority: FetchPriority) -> Actions {
        guard var request = requests[number], request.priority < priority,
            var host = hosts[request.host]
        else { return .nothing }
        defer { checkInvariants(of: request.host) }
        let old = request.priority
        request.priority = priority
        requests[number] = request
        if request.isUnderWay {
            if old == .prefetch { host.prefetches -= 1 }
        } else {
            host.lines[old.rawValue].remove(number)
            host.lines[priority.rawValue].insert(number)
        }
        let granted = grant(in: &host)
        hosts[request.host] = host
        return Actions(granted: granted)
    }

    /// Removes a request that has ended, or is no longer needed.
    mutating func leave(_ number: UInt64) -> Actions {
        guard let request = requests.removeValue(forKey: number), var host = hosts[request.host]
        else { return .nothing }
        defer { checkInvariants(of: request.host) }
        if request.isUnderWay {
            host.underWay -= 1
            if request.priority == .prefetch { host.prefetches -= 1 }
        } else {
            host.lines[request.priority.rawValue].remove(number)
        }
        let granted = grant(in: &host)
        hosts[request.host] = host.isIdle ? nil : host
        return Actions(granted: granted)
    }

    // MARK: - Choice

    private mutating func grant(in host: inout Host) -> [UInt64] {
        var granted: [UInt64] = []
        while let line = nextLine(in: host) {
            for lower in 0..<line where canGo(lower, in: host) { host.lines[lower].passedOver += 1 }
            let number = host.lines[line].waiting.removeFirst()
            host.lines[line].passedOver = 0
            host.underWay += 1
            if line == FetchPriority.prefetch.rawValue { host.prefetches += 1 }
            requests[number]?.isUnderWay = true
            granted.append(number)
        }
        return granted
    }

    /// Returns the most passed-over line beyond its patience, or else the highest line.
    private func nextLine(in host: Host) -> Int? {
        let able = host.lines.indices.reversed().filter { canGo($0, in: host) }
        let impatient = able.filter { host.lines[$0].passedOver >= limits.patience }
        // The first of equals, which is the one with the higher priority.
        let most = impatient.map { host.lines[$0].passedOver }.max()
        return impatient.first { host.lines[$0].passedOver == most } ?? able.first
    }

    private func canGo(_ line: Int, in host: Host) -> Bool {
        guard !host.lines[line].waiting.isEmpty, host.underWay < limits.slots else { return false }
        return line != FetchPriority.prefetch.rawValue || host.prefetches < limits.prefetchSlots
    }

    private func checkInvariants(of name: String) {
        #if DEBUG
        guard let host = hosts[name] else { return }
        assert(!host.isIdle, "An idle host is still stored.")
        assert(host.underWay <= limits.slots && host.prefetches <= limits.prefetchSlots)
        assert(host.prefetches >= 0 && host.prefetches <= host.underWay)
        assert(host.waiting <= limits.waiting, "Too many requests wait.")
        assert(host.lines.allSatisfy(\.isSorted), "A line is out of order.")
        assert(nextLine(in: host) == nil, "A request waits although a slot is free.")
        assert(host.lines.allSatisfy { $0.passedOver <= limits.patience + 1 }, "A line starves.")
        #endif
    }
}

extension RequestQueueState.Line {
    /// Returns the index of the number, or the one at which to insert it.
    private func index(of number: UInt64) -> Int {
        var low = 0
        var high = waiting.count
        while low < high {
            let middle = (low + high) / 2
            if waiting[middle] < number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    fileprivate var isSorted: Bool { zip(waiting, waiting.dropFirst()).allSatisfy(<) }

    fileprivate mutating func insert(_ number: UInt64) {
        waiting.insert(number, at: index(of: number))
    }

    fileprivate mutating func remove(_ number: UInt64) {
        let index = index(of: number)
        guard index < waiting.count, waiting[index] == number else { return }
        waiting.remove(at: index)
        if waiting.isEmpty { passedOver = 0 }
    }
}
