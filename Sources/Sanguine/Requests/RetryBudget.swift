import SanguineModel

/// The retries that each host gets, and the time until which it has asked for a pause.
///
/// When a host fails, every read of the app fails, and each would be retried: three times the load
/// for a host that is already overloaded. So the number of retries depends on the requests: at most
/// `reserve`, and one more for each `requestsPerRetry` requests, within the last `window`. When the
/// budget is used up, callers get errors at once.
///
/// The budget follows Finagle's (`RetryBudget`: a share of the requests of a window, and a reserve
/// for infrequent callers), which gRPC calls retry throttling (proposal A6).
///
/// A host that answers 429 or 503 with `Retry-After` (RFC 9110, section 10.2.3) addresses the whole
/// client: no read is retried there before that time, and no prefetch begins. First attempts of
/// awaited reads are still sent: the limit may apply to another path, and only the host knows.
///
/// Times are measured from any fixed moment and passed in. Threads may report them in another order
/// than they read them: the latest counts.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. A retry is allowed only if the retries of the window, including it, are at most `reserve`
///    plus one for each `requestsPerRetry` requests of the window.
/// 2. At most `hosts` hosts are remembered; the least recently used one is forgotten.
/// 3. A host is paused for at most `longestPause`.
struct RetryBudget: Sendable {
    struct Limits: Hashable, Sendable {
        /// The time for which requests and retries count.
        var window = ClientLimits.retryWindow
        /// The retries in a window in addition to the share of the requests.
        var reserve = ClientLimits.retryReserve
        /// The number of requests that allow one more retry.
        var requestsPerRetry = ClientLimits.requestsPerRetry
        /// The number of hosts that are remembered.
        var hosts = ClientLimits.retryHosts
        /// The longest time for which a host is paused.
        var longestPause = ClientLimits.longestPause
    }

    /// A pause that a host has asked for.
    struct Pause: Hashable, Sendable {
        /// The time that remains.
        var remaining: Duration
        /// The host's response.
        var error: SanguineError
    }

    /// A sixth of a window.
    private struct Slot {
        var number: Int64
        var requests = 0
        var retries = 0
    }

    private struct Host {
        var slots: [Slot] = []
        var pausedUntil = Duration.zero
        var pausedBy: SanguineError?
        var lastUse: UInt64 = 0
    }

    private static let slotsPerWindow: Int64 = 6

    let limits: Limits
    private var hosts: [String: Host] = [:]
    private var uses: UInt64 = 0
    private var latest = Duration.zero

    init(limits: Limits = Limits()) { self.limits = limits }

    /// The number of hosts that are remembered.
    var hostCount: Int { hosts.count }

    /// Counts the first attempt of a read.
    mutating func requested(_ host: String, at now: Duration) {
        update(host, at: now) { $0.slots[$0.slots.count - 1].requests += 1 }
    }

    /// Records a host's error, and the pause that it asks for.
    mutating func failed(_ host: String, with error: SanguineError, at now: Duration) {
        guard case .problem(let problem) = error, [429, 503].contains(problem.status),
            let wanted = error.retryAfter, wanted > .zero
        else { return }
        let end = max(now, latest) + min(wanted, limits.longestPause)
        update(host, at: now) { host in
            guard end > host.pausedUntil else { return }
            host.pausedUntil = end
            host.pausedBy = error
        }
    }

    /// Takes a retry from the budget.
    ///
    /// - Returns: Whether a retry was left.
    mutating func withdraw(_ host: String, at now: Duration) -> Bool {
        var isAllowed = false
        let limits = limits
        update(host, at: now) { host in
            let requests = host.slots.reduce(0) { $0 + $1.requests }
            let retries = host.slots.reduce(0) { $0 + $1.retries }
            isAllowed = retries < limits.reserve + requests / limits.requestsPerRetry
            if isAllowed { host.slots[host.slots.count - 1].retries += 1 }
        }
        return isAllowed
    }

    /// Returns the pause of the host; `nil` if it is not paused.
    func pause(of host: String, at now: Duration) -> Pause? {
        let now = max(now, latest)
        guard let host = hosts[host], host.pausedUntil > now, let error = host.pausedBy
        else { return nil }
        return Pause(remaining: host.pausedUntil - now, error: error)
    }

    private mutating func update(_ name: String, at now: Duration, _ event: (inout Host) -> Void) {
        var host = hosts[name] ?? Host()
        latest = max(now, latest)
        let now = latest
        let slot = Int64(now / (limits.window / Int(Self.slotsPerWindow)))
        host.slots.removeAll { $0.number <= slot - Self.slotsPerWindow }
        if host.slots.last?.number != slot { host.slots.append(Slot(number: slot)) }
        event(&host)
        uses += 1
        host.lastUse = uses
        if host.pausedUntil <= now { host.pausedBy = nil }
        hosts[name] = host
        if hosts.count > limits.hosts,
            let oldest = hosts.min(by: { $0.value.lastUse < $1.value.lastUse })
        {
            hosts[oldest.key] = nil
        }
        assert(hosts.count <= limits.hosts && host.slots.count <= Self.slotsPerWindow)
        assert(host.pausedUntil <= now + limits.longestPause)
    }
}
