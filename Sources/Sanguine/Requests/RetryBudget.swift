import SanguineModel

/// How many retries a host gets, and until when it asked to be left alone.
///
/// When a host fails, every read of the app fails and every one would be tried again: three times
/// the load, for a host that has too much of it. So retries are a part of the requests: at most
/// `reserve` and one for each `requestsPerRetry` requests, within the last `window`. When the
/// budget is used up, errors go to their callers at once.
///
/// The budget is Finagle's (`RetryBudget`: a share of the requests of a window, and a reserve for
/// those who ask seldom), which gRPC knows as retry throttling (proposal A6).
///
/// A host that answers 429 or 503 with `Retry-After` (RFC 9110, section 10.2.3) has said so to the
/// whole client: no retry of any read goes there sooner, and no prefetch begins. First attempts of
/// what somebody waits for do go: the limit may be that of another path, and only the host can
/// tell.
///
/// Times count from any one moment and are passed in. Threads may tell theirs in another order than
/// they read them: the latest counts.
///
/// Invariants, checked after every event in debug builds:
///
/// 1. A retry is given only if those of the window, it included, are at most `reserve` and one for
///    each `requestsPerRetry` requests of the window.
/// 2. At most `hosts` hosts are remembered; the one used least recently is forgotten.
/// 3. A host is left alone for `longestPause` at most.
struct RetryBudget: Sendable {
    struct Limits: Hashable, Sendable {
        /// How long requests and retries count.
        var window = ClientLimits.retryWindow
        /// Retries in a window beside the share of the requests.
        var reserve = ClientLimits.retryReserve
        /// How many requests allow one retry more.
        var requestsPerRetry = ClientLimits.requestsPerRetry
        /// Hosts that are remembered.
        var hosts = ClientLimits.retryHosts
        /// The longest time for which a host is left alone.
        var longestPause = ClientLimits.longestPause
    }

    /// A host that asked to be left alone.
    struct Pause: Hashable, Sendable {
        /// For how long from now on.
        var remaining: Duration
        /// What it answered.
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

    /// How many hosts are remembered.
    var hostCount: Int { hosts.count }

    /// A read was tried for the first time.
    mutating func requested(_ host: String, at now: Duration) {
        change(host, at: now) { $0.slots[$0.slots.count - 1].requests += 1 }
    }

    /// The host answered an error: heeds the time that it asks for.
    mutating func failed(_ host: String, with error: SanguineError, at now: Duration) {
        guard case .problem(let problem) = error, [429, 503].contains(problem.status),
            let wanted = error.retryAfter, wanted > .zero
        else { return }
        let end = max(now, latest) + min(wanted, limits.longestPause)
        change(host, at: now) { host in
            guard end > host.pausedUntil else { return }
            host.pausedUntil = end
            host.pausedBy = error
        }
    }

    /// Takes a retry out of the budget.
    ///
    /// - Returns: Whether there was one.
    mutating func withdraw(_ host: String, at now: Duration) -> Bool {
        var isAllowed = false
        let limits = limits
        change(host, at: now) { host in
            let requests = host.slots.reduce(0) { $0 + $1.requests }
            let retries = host.slots.reduce(0) { $0 + $1.retries }
            isAllowed = retries < limits.reserve + requests / limits.requestsPerRetry
            if isAllowed { host.slots[host.slots.count - 1].retries += 1 }
        }
        return isAllowed
    }

    /// For how long the host is to be left alone; `nil` if it is not.
    func pause(of host: String, at now: Duration) -> Pause? {
        let now = max(now, latest)
        guard let host = hosts[host], host.pausedUntil > now, let error = host.pausedBy
        else { return nil }
        return Pause(remaining: host.pausedUntil - now, error: error)
    }

    private mutating func change(_ name: String, at now: Duration, _ event: (inout Host) -> Void) {
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
