import Foundation
import OrderedCollections
import SanguineModel
import Synchronization

/// Requests parts of one user's feed.
struct FeedRequests: Sendable {
    /// The parameters of a pull.
    struct Ask: Sendable {
        let since: Int64
        /// The epoch of that number; `nil` if it is unknown.
        let epoch: Epoch?
        /// The operations whose outcome it asks for, with their sequence numbers.
        let operations: [Identifier: Int64]
        /// The last number whose deletions are forgotten, as far as the base knows.
        let horizon: Int64

        init(_ state: borrowing SyncState) {
            let outbox = state.outbox
            let unresolved = outbox.unresolved.prefix(WireLimits.operationsAsked)
                .compactMap { outbox.items[$0] }
            since = state.pullPosition
            epoch = state.pullEpoch
            horizon = state.pullHorizon
            operations = Dictionary(unresolved.map { ($0.id, $0.sequence) }) { first, _ in first }
        }
    }

    let call: ServerCall
    /// Returns the revision of the switches that this device has; `nil` for a client without them.
    var config: (@Sendable () -> Int64)?

    /// Requests the part after a number.
    func page<Page: FeedPage>(
        _ page: Page.Type,
        since: FeedMark,
        _ ask: Ask,
        horizon: Int64
    ) async throws(SanguineError) -> ServerCall.Answer<Page> {
        var query = [
            URLQueryItem(name: "since", value: "\(since.number)"),
            URLQueryItem(name: "limit", value: "\(RecordLimits.pullChanges)"),
            URLQueryItem(name: "horizon", value: "\(horizon)"),
        ]
        if let epoch = since.epoch {
            query.append(URLQueryItem(name: "epoch", value: epoch.text))
        }
        if let config {
            query.append(URLQueryItem(name: "config", value: "\(config())"))
        }
        if !ask.operations.isEmpty {
            let ids = ask.operations.keys.map(\.description).sorted().joined(separator: ",")
            query.append(URLQueryItem(name: "operations", value: ids))
        }
        return try await call.get("/v1/sync/pull", query: query, decode: Page.decoded)
    }

    static func batch(of answer: PullAnswer, to ask: Ask) -> SyncState.FeedBatch {
        // If the server does not state their outcomes, they count as not asked about.
        let asked = answer.operations == nil ? [] : Set(ask.operations.values)
        var batch = SyncState.FeedBatch(answer, since: ask.since, asked: asked)
        batch.head = answer.hasMore ? max(answer.head, answer.next + 1) : answer.next
        return batch
    }
}

/// The published lists of a user.
struct PublishedLists: Sendable {
    /// Returns the collections of those that are shown.
    var shown: @Sendable () -> Set<String>
    /// Receives the collections of those that may have changed on the server.
    var changed: @Sendable (Set<String>) -> Void
}

/// A type that decodes the answer to a pull.
protocol FeedPage: Sendable {
    static func decoded(from response: TransportResponse) throws(SanguineError) -> Self
}

extension PullAnswer: FeedPage {
    static func decoded(from response: TransportResponse) throws(SanguineError) -> PullAnswer {
        try WireCoding.decodeRecords(PullAnswer.self, from: response)
    }
}

/// Reads one user's feed, by pulls and live, and passes it to ``UserRecords``.
///
/// No request is sent before the app uses records or observes an entry that the feed carries.
///
/// Invariants: at most one pull, one wait before the next, one wait for an echo and one live
/// connection; none after ``end(_:)``.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during an `await` or a
/// call to the records.
final class UserFeed: Sendable {
    /// A pull, which several callers may wait for.
    private struct Run {
        let number: UInt64
        let outcome = OneShot<Void>()
        var task: Task<Void, Never>?
    }

    private struct Guarded {
        var isActive = false
        var isLive = false
        var hasEnded = false
        var puller: Run?
        var mustPullAgain = false
        var failures = 0
        var runs: UInt64 = 0
        /// Waits for the next pull.
        var polling: Task<Void, Never>?
        /// Waits for changes that the live feed should bring.
        var echo: Task<Void, Never>?
        var echoes: UInt64 = 0
        /// Whether to wait again, for changes that became due after the wait began.
        var mustWaitAgain = false
        var followings: [ObservationToken] = []
        var live: LiveFeed?

        mutating func stopPolling() {
            polling?.cancel()
            polling = nil
        }

        mutating func stopWaiting() {
            echo?.cancel()
            (echo, mustWaitAgain) = (nil, false)
        }
    }

    private static let schedule = RetrySchedule(attempts: .max, cap: RecordLimits.longestWait)

    let restore: FeedRestore
    private let records: UserRecords
    private let environment: OutboxEnvironment
    private let requests: FeedRequests?
    private let lists: PublishedLists?
    /// The interval between pulls in the foreground; `nil` for never.
    private let pollInterval: Duration?
    private let guarded = Mutex(Guarded())

    /// Creates the feed; without a server `call` is `nil`, and nothing ever arrives.
    init(
        _ records: UserRecords,
        _ call: ServerCall?,
        pollInterval: Duration?,
        lists: PublishedLists? = nil,
        config: (@Sendable () -> Int64)? = nil
    ) {
        self.lists = lists
        self.records = records
        self.pollInterval = pollInterval
        environment = records.environment
        requests = call.map { FeedRequests(call: $0, config: config) }
        restore = FeedRestore(records, requests)
    }

    // MARK: - Life

    /// Activates the feed for reads and observers, which do not sign in after a sign-out.
    func use() {
        guard requests?.call.authorizer.maySignIn ?? true else { return }
        activate()
    }

    /// Opens the records, follows app and network, and pulls new changes.
    func activate() {
        let isNew = guarded.withLock { guarded in
            guard !guarded.hasEnded, !guarded.isActive else { return false }
            guarded.isActive = true
            guard requests != nil else { return true }
            let (lifecycle, connectivity) = (environment.lifecycle, environment.connectivity)
            guarded.followings = [
                lifecycle.isForeground.follow { [weak self] in self?.lifecycleChanged() },
                connectivity.isOnline.follow { [weak self] in
                    if connectivity.isOnline.value { self?.pull() }
                },
            ]
            return true
        }
        guard isNew else { return }
        records.open()
        restore.resume()
        // Earlier readers have seen no records.
        records.observers.changed(nil)
        pull()
        followLive()
    }

    /// Whether the feed is being pulled.
    var isPulling: Bool { guarded.withLock { $0.puller != nil } }

    /// The number of callers that wait for the pull in progress.
    var waiterCount: Int { guarded.withLock { $0.puller }?.outcome.waiting ?? 0 }

    /// Whether there is a live connection.
    var isLive: Bool { guarded.withLock { $0.isLive } }

    /// The number of pulls that failed in a row.
    var failuresInARow: Int { guarded.withLock { $0.failures } }

    /// The number of changes that the server is known to have and the device has not.
    var lag: Int64 { records.outbox.read { $0.state.lag ?? 0 } }

    /// Whether the app uses records.
    var isActive: Bool { guarded.withLock { $0.isActive } }

    /// Lines about the feed at one moment, for a report.
    var survey: [String] {
        let (isActive, isPulling, failures, live) = guarded.withLock { guarded in
            (guarded.isActive, guarded.puller != nil, guarded.failures, guarded.live)
        }
        guard isActive else { return ["not in use"] }
        var pulls = isPulling ? "a pull is in progress" : "no pull is in progress"
        if failures > 0 { pulls += ", " + failures.counted("failure") + " in a row" }
        var lines = [
            "cursor: " + records.outbox.read { $0.state.debugDescription },
            "live: " + (live?.connection ?? "no live connection, the feed is polled"),
            "pulls: " + pulls,
        ]
        if restore.isUnfinished {
            let percent = Int(restore.progress.fraction * 100)
            lines.append("restore: \(percent) percent of the records are here")
        }
        return lines
    }

    /// Ends everything in progress.
    ///
    /// - Returns: A closure that notifies the waiting callers.
    func end(_ reason: SanguineError) -> @Sendable () -> Void {
        let ended = guarded.withLock { guarded in
            defer { guarded = Guarded(isActive: guarded.isActive, hasEnded: true) }
            guarded.stopWaiting()
            return (guarded.puller, guarded.polling, guarded.live)
        }
        let (puller, polling, live) = ended
        live?.close()
        puller?.task?.cancel()
        polling?.cancel()
        restore.end()
        return { puller?.outcome.resolve(.failure(reason)) }
    }

    /// Pulls the feed, now that the account is known.
    func signedIn() {
        // A pull in progress waits for the account and continues by itself.
        if guarded.withLock({ $0.isActive && $0.puller == nil }) { pull() }
    }

    /// Sends pending operations, and pulls to the head.
    func synchronize() async throws(SanguineError) {
        guard let requests else { throw .notConfigured("'server'") }
        requests.call.authorizer.allowSignIn()
        activate()
        do throws(SanguineError) {
            try await records.outbox.sendAll(.record)
        } catch {
            // The server answers: its changes arrive even if it refuses the operation.
            if case .problem = error { try await pulled() }
            throw error
        }
        try await pulled()
    }

    /// Pulls the records if they were never complete; a pull in progress is enough.
    func loadBase() async throws(SanguineError) {
        guard !hasBase else { return }
        guard let requests else { throw .notConfigured("'server'") }
        requests.call.authorizer.allowSignIn()
        activate()
        try await pulled(again: false)
    }

    private func pulled(again: Bool = true) async throws(SanguineError) {
        guard let pulling = pull(again: again) else {
            return try await records.outbox.checkPresence()
        }
        try await pulling.value()
    }

    /// Whether the records are a complete state of the server.
    var hasBase: Bool { records.outbox.read { $0.state.isWhole } && !restore.isUnfinished }

    /// Whether there is a server that could have records.
    var hasServer: Bool { requests != nil }

    private func lifecycleChanged() {
        if environment.lifecycle.isForeground.value {
            pull()
        } else {
            guarded.withLock { $0.stopPolling() }
        }
    }

    // MARK: - Pulling

    /// Pulls new changes.
    ///
    /// - Parameter again: Whether to pull once more if a pull is in progress. Default: yes.
    /// - Returns: The outcome of the pull; `nil` without a server.
    @discardableResult
    func pull(again: Bool = true) -> OneShot<Void>? {
        guard requests != nil, records.outbox.read({ $0.records != nil }) else { return nil }
        return guarded.withLock { guarded -> OneShot<Void>? in
            guard !guarded.hasEnded else { return nil }
            guarded.mustPullAgain = guarded.mustPullAgain || again || guarded.puller == nil
            if let puller = guarded.puller { return puller.outcome }
            guarded.stopPolling()
            guarded.runs += 1
            var run = Run(number: guarded.runs)
            let number = run.number
            run.task = Task { [self] in await pull(run: number) }
            guarded.puller = run
            return run.outcome
        }
    }

    private func pull(run: UInt64) async {
        var more = false
        var vain = 0
        var failure: SanguineError?
        let restored = restore.part
        while let ask = nextAsk(run, more: more && vain < RecordLimits.vainPulls, failure) {
            do throws(SanguineError) {
                more = try await pullPage(ask)
                vain = records.outbox.read { $0.state.pullPosition } != ask.since ? 0 : vain + 1
            } catch {
                failure = error
                // A restore that makes progress is soon continued, however often it is interrupted.
                if restore.part != restored { guarded.withLock { $0.failures = 0 } }
            }
        }
    }

    /// Returns the parameters of the next request; `nil` if the run is over.
    private func nextAsk(
        _ run: UInt64,
        more: Bool,
        _ failure: SanguineError?
    ) -> FeedRequests.Ask? {
        let (goesOn, ended) = guarded.withLock { guarded -> (Bool, OneShot<Void>?) in
            guard guarded.puller?.number == run else { return (false, nil) }
            guard failure == nil, more || guarded.mustPullAgain else {
                defer { guarded.puller = nil }
                guarded.failures = failure == nil ? 0 : guarded.failures + 1
                poll(&guarded)
                return (false, guarded.puller?.outcome)
            }
            guarded.mustPullAgain = false
            return (true, nil)
        }
        if ended != nil { guarded.withLock { $0.live }?.pulled() }
        ended?.resolve(failure.map { .failure($0) } ?? .success(()))
        return goesOn ? records.outbox.read { FeedRequests.Ask($0.state) } : nil
    }

    /// Schedules another pull, unless something else pulls first.
    private func poll(_ guarded: inout Guarded) {
        // A live feed continues from the end of the pull, so a failed pull is repeated.
        guard !guarded.isLive || guarded.failures > 0,
            environment.lifecycle.isForeground.value
        else { return }
        var random = environment.random
        let wait =
            guarded.failures == 0
            ? pollInterval
            : Self.schedule.backoff(afterFailures: guarded.failures, using: &random)
        guard let wait else { return }
        guarded.polling?.cancel()
        guarded.polling = Task { [weak self, delay = environment.delay] in
            guard (try? await delay.sleep(for: wait)) != nil else { return }
            guard let self, environment.lifecycle.isForeground.value,
                environment.connectivity.isOnline.value
            else { return }
            pull()
        }
    }

    /// Pulls one page; returns whether there is more to pull.
    private func pullPage(_ first: FeedRequests.Ask) async throws(SanguineError) -> Bool {
        guard let requests else { throw .notConfigured("'server'") }
        let ask = try await signedIn(first, requests.call.authorizer)
        if let unfinished = try restore.unfinished(), !records.isHeld(unfinished) {
            return try await restore.go(on: unfinished, ask)
        }
        // At the start there are no records, so no deletion can be missed.
        let horizon = ask.since == 0 ? 0 : ask.horizon
        let answer = try await requests.page(
            PullAnswer.self,
            // At the start there is nothing that another epoch could invalidate.
            since: FeedMark(epoch: ask.since == 0 ? nil : ask.epoch, number: ask.since),
            ask,
            horizon: horizon
        )
        .value
        if answer.hasMore, answer.reset || ask.since == 0 {
            return try await restore.go(on: try restore.begin(with: answer), ask)
        }
        // First, so that observers never see a complete base before the whole progress.
        if !answer.hasMore { restore.hasCaughtUp() }
        return records.receive(FeedRequests.batch(of: answer, to: ask)) != .nothing
    }

    /// Waits until an account is known, because there is no feed without one.
    private func signedIn(
        _ ask: FeedRequests.Ask,
        _ authorizer: any Authorizer
    ) async throws(SanguineError) -> FeedRequests.Ask {
        guard authorizer.account == nil else { return ask }
        _ = try await authorizer.accessToken()
        guard authorizer.account != nil else { throw .userChanged }
        return records.outbox.read { FeedRequests.Ask($0.state) }
    }

    // MARK: - What is missing

    /// Supplies missing data.
    ///
    /// The changes of a push come through the live feed, so that the client need not read its own
    /// writes back. They are pulled if they do not arrive within ``RecordLimits/echoWait``, or if
    /// there is no live feed.
    func respond(to missing: SyncState.Missing) {
        switch missing {
        case .nothing: break
        case .echo: if !waitForEcho() { pull() }
        case .more: pull()
        }
    }

    /// Whether the client waits for the changes of a push.
    var isWaitingForEcho: Bool {
        guarded.withLock { $0.echo != nil }
            && records.outbox.read { $0.state.missing == .echo }
    }

    /// Starts a wait for the live feed; returns whether there is one.
    private func waitForEcho() -> Bool {
        guarded.withLock { guarded in
            guard guarded.isLive, !guarded.hasEnded else { return false }
            guarded.mustWaitAgain = guarded.echo != nil
            guard guarded.echo == nil else { return true }
            guarded.echoes += 1
            let number = guarded.echoes
            guarded.echo = Task { [weak self, delay = environment.delay] in
                while let position = self?.records.outbox.read({ $0.state.position }),
                    (try? await delay.sleep(for: RecordLimits.echoWait)) != nil,
                    self?.mustWait(number, for: position) == true
                {}
            }
            return true
        }
    }

    /// Pulls if the base has not moved from the position; returns whether to wait again.
    private func mustWait(_ number: UInt64, for former: Int64) -> Bool {
        let (missing, position) = records.outbox.read { ($0.state.missing, $0.state.position) }
        let isLate = missing != .nothing && position == former
        if isLate { pull() }
        return guarded.withLock { guarded in
            guard guarded.echo != nil, guarded.echoes == number else { return false }
            let goesOn = guarded.mustWaitAgain || (missing != .nothing && !isLate)
            guarded.mustWaitAgain = false
            if !goesOn { guarded.echo = nil }
            return goesOn
        }
    }

    // MARK: - Live

    /// Whether there is a server, and a transport that supports live connections.
    var canBeLive: Bool { requests?.call.exchange.transport is any StreamingTransport }

    /// Has the live connection follow the published lists that are shown.
    func followLists() { guarded.withLock { $0.live }?.followLists() }

    /// Starts to follow the feed live.
    private func followLive() {
        guard let requests, canBeLive else { return }
        let live = guarded.withLock { guarded -> LiveFeed? in
            guard !guarded.hasEnded, guarded.live == nil else { return nil }
            let live = liveFeed(requests.call)
            guarded.live = live
            return live
        }
        live?.start()
    }

    private func liveFeed(_ call: ServerCall) -> LiveFeed {
        LiveFeed(
            call: call,
            environment: LiveFeed.Environment(
                lifecycle: environment.lifecycle,
                connectivity: environment.connectivity,
                delay: environment.delay,
                random: environment.random
            ),
            handlers: LiveFeed.Handlers(
                position: { [weak self] in self?.liveMark },
                receive: { [weak self] batch in
                    guard let self else { return }
                    respond(to: records.receive(batch))
                },
                pull: { [weak self] in _ = self?.pull() },
                setLive: { [weak self] in self?.setLive($0) },
                config: requests?.config,
                switches: { [weak self] in self?.records.receive(switches: $0, of: $1) },
                lists: lists
            )
        )
    }

    /// Records whether there is a live connection; without one the feed is pulled.
    private func setLive(_ isLive: Bool) {
        guarded.withLock { guarded in
            guarded.isLive = isLive
            if isLive { guarded.stopPolling() } else { guarded.stopWaiting() }
        }
        if !isLive { pull() }
    }

    /// The start of a live connection: the end of the last pull.
    private var liveMark: FeedMark? {
        records.outbox.read { contents in
            guard contents.records != nil, contents.state.isComplete else { return nil }
            let state = contents.state
            return FeedMark(epoch: state.pullEpoch, number: state.pullPosition)
        }
    }
}
