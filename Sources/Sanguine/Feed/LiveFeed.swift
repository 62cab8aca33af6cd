import Foundation
import SanguineModel
import Synchronization

/// Follows the feed live: ``FeedConnectionState`` decides, this class connects, waits and delivers.
///
/// ```swift
/// let feed = LiveFeed(call: call, environment: environment, handlers: handlers)
/// feed.start()
/// ```
///
/// Invariants:
///
/// 1. At most one connection, and one wait; none after ``close()``.
/// 2. Handlers are called in the order of the events, and with no lock held.
///
/// Mutable state: `guarded`, protected by its mutex. Tasks hold this object weakly while they wait.
final class LiveFeed: Sendable {
    /// Callbacks into the owner of the records.
    struct Handlers: Sendable {
        /// Returns where to begin; `nil` while the feed is still to be pulled.
        ///
        /// ``LiveFeed/pulled()`` is called after the pull.
        var position: @Sendable () -> FeedMark?
        /// Receives whole operations.
        var receive: @Sendable (SyncState.FeedBatch) -> Void
        /// Pulls the feed.
        var pull: @Sendable () -> Void
        /// Records whether the feed is live; if not, it must be polled.
        var setLive: @Sendable (Bool) -> Void
        /// Returns the revision of the switches that this device has.
        var config: (@Sendable () -> Int64)?
        /// Receives switches, which have no number of their own in the feed.
        var switches: @Sendable (RecordChange, Epoch?) -> Void = { _, _ in }
        /// The published lists; `nil` if there are none.
        var lists: PublishedLists?
    }

    /// The parts of the client that a feed uses.
    struct Environment: Sendable {
        var lifecycle: any Lifecycle
        var connectivity: any Connectivity
        var delay: any Clock<Duration>
        var random: RandomSource
    }

    private struct Guarded {
        var state: FeedConnectionState
        var random: RandomSource
        var tasks: [UInt64: Task<Void, Never>] = [:]
        var watchdog: Task<Void, Never>?
        var followings: [ObservationToken] = []
        /// The collections whose changes the last connection asked for.
        var lists: Set<String> = []
        /// Those for which a connection was opened, so that a gap in it may hide changes.
        var openedLists: Set<String> = []
        /// The others that are shown, and since when they wait for a connection.
        var waitingLists: [String: Duration] = [:]
        /// Actions that the handlers have not received yet, and whether a thread is delivering
        /// them.
        var undelivered: [FeedConnectionState.Action] = []
        var isDelivering = false
    }

    private let guarded: Mutex<Guarded>
    private let call: ServerCall
    private let handlers: Handlers
    private let environment: Environment
    private let uptime: @Sendable () -> Duration

    init(call: ServerCall, environment: Environment, handlers: Handlers) {
        self.call = call
        self.handlers = handlers
        self.environment = environment
        uptime = Self.stopwatch(environment.delay)
        let state = FeedConnectionState(
            isForeground: environment.lifecycle.isForeground.value,
            isOnline: environment.connectivity.isOnline.value
        )
        guarded = Mutex(Guarded(state: state, random: environment.random))
    }

    deinit { close() }

    /// Connects, and follows app and network.
    func start() {
        let (lifecycle, connectivity) = (environment.lifecycle, environment.connectivity)
        let followings = [
            lifecycle.isForeground.follow { [weak self] in
                self?.apply { $0.setForeground(lifecycle.isForeground.value) }
            },
            connectivity.isOnline.follow { [weak self] in
                self?.apply { $0.setOnline(connectivity.isOnline.value) }
            },
        ]
        guarded.withLock { $0.followings = followings }
        // Changes between the creation and now.
        apply { state in
            state.setForeground(lifecycle.isForeground.value)
                + state.setOnline(connectivity.isOnline.value) + state.start()
        }
    }

    /// Connects now if a connection has waited for a pull to end.
    func pulled() {
        if handlers.position() != nil { apply { $0.pullEnded() } }
    }

    /// Connects again if collections are shown that the connection does not follow.
    ///
    /// Those that are no longer shown leave with the next connection.
    func followLists() {
        let shown = findLists()
        guard !guarded.withLock({ $0.lists.isSuperset(of: shown) }) else { return }
        apply { $0.restart() }
    }

    /// Returns the collections to follow, at most ``WireLimits/followedLists``.
    private func findLists() -> Set<String> {
        let shown = Set((handlers.lists?.shown() ?? []).sorted().prefix(WireLimits.followedLists))
        let now = uptime()
        guarded.withLock { guarded in
            let new = shown.subtracting(guarded.openedLists).map { name in
                (name, guarded.waitingLists[name] ?? now)
            }
            guarded.waitingLists = Dictionary(uniqueKeysWithValues: new)
        }
        return shown
    }

    /// Ends the connection, after which nothing is delivered.
    func close() {
        apply { $0.close() }
        let followings = guarded.withLock { guarded in
            defer { guarded.followings = [] }
            return guarded.followings
        }
        withExtendedLifetime(followings) {}  // Released here, with no lock held.
    }

    /// One line about the connection, for a report.
    var connection: String { guarded.withLock { $0.state.debugDescription } }

    // MARK: - Changes

    private func apply(_ body: (inout FeedConnectionState) -> [FeedConnectionState.Action]) {
        apply { state, _ in body(&state) }
    }

    private func apply(
        _ body: (inout FeedConnectionState, inout RandomSource) -> [FeedConnectionState.Action]
    ) {
        let mustTell = guarded.withLock { guarded in
            for action in body(&guarded.state, &guarded.random) { perform(action, &guarded) }
            defer { guarded.isDelivering = guarded.isDelivering || !guarded.undelivered.isEmpty }
            return !guarded.isDelivering && !guarded.undelivered.isEmpty
        }
        if mustTell { notifyHandlers() }
    }

    private func perform(_ action: FeedConnectionState.Action, _ guarded: inout Guarded) {
        switch action {
        case .connect(let number):
            guarded.tasks[number] = Task { [weak self] in await self?.connect(number) }
            watch(number, &guarded)
        case .wait(let number, let duration):
            guarded.tasks[number] = Task { [weak self, delay = environment.delay] in
                guard (try? await delay.sleep(for: duration)) != nil else { return }
                self?.woke(number)
            }
        case .cancel(let number):
            guarded.tasks.removeValue(forKey: number)?.cancel()
            guarded.watchdog?.cancel()
        case .setLive, .pull: guarded.undelivered.append(action)
        }
    }

    /// Calls the handlers in order; a thread that arrives in the meantime leaves its actions to the
    /// first one.
    private func notifyHandlers() {
        while let action = nextToTell() {
            switch action {
            case .setLive(let isLive): handlers.setLive(isLive)
            case .pull: handlers.pull()
            case .connect, .wait, .cancel: break
            }
        }
    }

    private func nextToTell() -> FeedConnectionState.Action? {
        guarded.withLock { guarded in
            guarded.isDelivering = !guarded.undelivered.isEmpty
            return guarded.undelivered.isEmpty ? nil : guarded.undelivered.removeFirst()
        }
    }

    // MARK: - Waiting

    private func woke(_ number: UInt64) {
        guarded.withLock { $0.tasks[number] = nil }
        apply { $0.waited(number) }
    }

    /// Closes the connection if nothing arrives for too long.
    private func watch(_ number: UInt64, _ guarded: inout Guarded) {
        guarded.watchdog?.cancel()
        guarded.watchdog = Task { [weak self, delay = environment.delay] in
            guard (try? await delay.sleep(for: FeedLimits.silence)) != nil else { return }
            self?.ended(number, .failed(retryAfter: nil))
        }
    }

    private func heard(_ number: UInt64) {
        guarded.withLock { guarded in
            if guarded.tasks[number] != nil { watch(number, &guarded) }
        }
    }

    private func ended(_ number: UInt64, _ ending: FeedConnectionState.Ending) {
        guarded.withLock { guarded in
            guard let task = guarded.tasks.removeValue(forKey: number) else { return }
            task.cancel()
            guarded.watchdog?.cancel()
        }
        let now = uptime()
        apply { state, random in state.ended(number, ending, at: now, using: &random) }
    }

    // MARK: - Connecting

    private func connect(_ number: UInt64) async {
        do throws(SanguineError) {
            let ending = try await follow(number)
            ended(number, ending)
            // The pull may have ended before the wait for it began.
            if ending == .noPosition { pulled() }
        } catch {
            ended(number, FeedConnectionState.Ending(error))
        }
    }

    private func follow(
        _ number: UInt64
    ) async throws(SanguineError) -> FeedConnectionState.Ending {
        let lists = findLists()
        guard let mark = handlers.position() else { return .noPosition }
        var query = [URLQueryItem(name: "since", value: "\(mark)")]
        if let config = handlers.config {
            query.append(URLQueryItem(name: "config", value: "\(config())"))
        }
        guarded.withLock { $0.lists = lists }
        if !lists.isEmpty {
            query.append(URLQueryItem(name: "lists", value: lists.sorted().joined(separator: ",")))
        }
        let request = try TransportRequest(
            base: call.server,
            path: "/v1/live",
            query: query,
            headers: ["Accept": "text/event-stream"]
        )
        let account = call.authorizer.account
        let stream = try await call.stream(request)
        defer { stream.cancel() }
        let now = uptime()
        apply { $0.opened(number, at: now) }
        let missed = guarded.withLock { guarded -> Set<String> in
            // A newer connection may have replaced this one, for which its lists still wait.
            guard guarded.tasks[number] != nil else { return [] }
            let late = guarded.waitingLists.filter { now - $0.value > FeedLimits.listGap }.keys
            defer { (guarded.openedLists, guarded.waitingLists) = (lists, [:]) }
            return guarded.openedLists.union(late).intersection(lists)
        }
        if !missed.isEmpty { handlers.lists?.changed(missed) }
        var parser = EventStreamParser(limit: FeedLimits.eventBytes)
        var batches = LiveBatches(after: mark)
        while let bytes = try await next(of: stream) {
            heard(number)
            apply { $0.heard(number) }
            // After a sign-out no further data may be delivered.
            try call.authorizer.check()
            // After a merge, the feed is another account's.
            guard account == nil || account == call.authorizer.account else { return .reset }
            var outputs: [EventStreamParser.Output] = []
            do {
                try parser.parse(bytes) { outputs.append($0) }
            } catch {
                return .reset
            }
            for output in outputs {
                guard try process(output, number, &batches) else { return .reset }
            }
        }
        return .ended
    }

    private func next(of stream: TransportStream) async throws(SanguineError) -> Data? {
        do {
            return try await stream.next()
        } catch .cancelled {
            throw .cancelled
        } catch {
            throw .transport(error)
        }
    }

    /// Processes one output; returns whether the feed can continue from it.
    private func process(
        _ output: EventStreamParser.Output,
        _ number: UInt64,
        _ batches: inout LiveBatches
    ) throws(SanguineError) -> Bool {
        var batch: SyncState.FeedBatch?
        switch output {
        case .event("change", let data, let id):
            guard batches.isContinued(at: id) else { return false }
            let change = try WireCoding.decodeRecords(LiveChange.self, from: data)
            if change.change.collection == Switches.collection {
                handlers.switches(change.change, FeedMark(id)?.epoch)
                return true
            }
            do {
                batch = try batches.add(change)
            } catch {
                return false
            }
        case .event("list", let data, _):
            let list = try WireCoding.decode(ChangedList.self, from: data)
            handlers.lists?.changed([list.collection])
        case .event("reset", _, _): return false
        case .resumeID(let id):
            guard batches.isContinued(at: id) else { return false }
            batch = FeedMark(id).flatMap { batches.reached($0.number) }
        case .retry(let time): guarded.withLock { $0.state.setRetryDelay(number, retry: time) }
        case .event, .comment: break
        }
        if let batch { handlers.receive(batch) }
        return true
    }

    private static func stopwatch(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}

extension FeedConnectionState.Ending {
    /// Maps an error to its meaning for the next attempt.
    fileprivate init(_ error: SanguineError) {
        switch error {
        case .problem(let problem) where [404, 405, 406, 501].contains(problem.status):
            self = .unavailable
        case .notConfigured: self = .unavailable
        case .decoding: self = .reset
        default: self = .failed(retryAfter: error.retryAfter)
        }
    }
}
