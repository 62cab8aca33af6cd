import Foundation
import SanguineModel

/// Composes the report of ``SanguineClient/debugReport()``.
///
/// It reads what the parts of the client report about themselves, one after the other, so that it
/// never holds two locks at once.
struct ReportComposer {
    private let client: SanguineClient
    private let now: Timestamp
    private var report: ReportText
    private var figures: [DebugFigure: Int64] = [:]

    init(of client: SanguineClient) {
        self.client = client
        now = client.configuration.clock.now()
        report = ReportText(at: now)
        report.section("Sanguine \(SanguineClient.version), \(now)")
        let user = client.users.current
        report.reserveSection("figures")
        addClient(user)
        addNetwork()
        addRequests()
        addCache()
        addImages()
        addOutbox(user.outbox.survey())
        let summary = user.outbox.summary()
        set(.outboxUnsent, summary.unsent)
        set(.outboxSettling, summary.settling)
        set(.outboxRefused, summary.refused)
        addFeed(user.feed)
        addBalance(user.balance)
        addStorage(user.folder)
        addSwitches()
        addMetrics()
        report.fillReserved(
            DebugFigure.allCases.map { figure in
                "\(figure.rawValue): \(figures[figure].map { String($0) } ?? "unknown")"
            }
        )
    }

    /// The report.
    var result: DebugReport {
        let (sections, isCut) = report.bounded
        return DebugReport(
            version: SanguineClient.version,
            createdAt: now,
            figures: figures,
            sections: sections,
            isCut: isCut
        )
    }

    private mutating func set(_ figure: DebugFigure, _ value: some BinaryInteger) {
        figures[figure] = Int64(clamping: value)
    }

    private mutating func set(_ figure: DebugFigure, _ isSo: Bool) { set(figure, isSo ? 1 : 0) }

    private var configuration: SanguineClient.Configuration { client.configuration }

    private mutating func addClient(_ user: UserScope) {
        let session = user.session.survey()
        report.section("client")
        report.add("app version: \(configuration.appVersion ?? "unknown")")
        report.add("server: \(configuration.server.map(Self.address) ?? "none")")
        report.add("backend: \(configuration.baseURL.map(Self.address) ?? "none")")
        report.add("device: \(session.device.map { "\($0.prefix(8))…" } ?? "unknown")")
        report.add("user: " + name(of: user, session))
        if let expiry = session.expiry {
            let ending = expiry > now ? "expires" : "expired"
            report.add("access token: \(ending) \(report.age(expiry))")
            set(.sessionExpiresIn, (expiry - now).components.seconds)
            set(.sessionRejected, session.isRejected)
            if session.isRejected { report.add("access token: rejected by the server") }
        }
    }

    private func name(of user: UserScope, _ session: SessionKeeper.Survey) -> String {
        if let account = user.authorizer.account {
            let end = account.description.suffix(8)
            return session.isGuest ? "guest …\(end)" : "signed in as …\(end)"
        }
        // The id may be an address.
        if let id = user.owner?.userID { return "named by the app, by \(id.utf8.count) bytes" }
        return session.isSignedOut ? "none, after a sign-out" : "none yet"
    }

    private mutating func addNetwork() {
        report.section("network")
        report.add(configuration.connectivity.isOnline.value ? "online" : "offline")
        let isForeground = configuration.lifecycle.isForeground.value
        report.add(isForeground ? "app in the foreground" : "app in the background")
        let work = client.underWay.count
        report.add("in progress: \(work)")
        set(.networkOnline, configuration.connectivity.isOnline.value)
        set(.appForeground, isForeground)
        set(.workInProgress, work)
    }

    private mutating func addRequests() {
        report.section("requests")
        let loads = client.services.cacheScope.attempts.backend.queue.loads
        set(.requestsInFlight, loads.map(\.underWay).reduce(0, +))
        set(.requestsWaiting, loads.flatMap(\.waiting.values).reduce(0, +))
        set(.requestsWaitingVisible, loads.compactMap { $0.waiting[.visible] }.reduce(0, +))
        if loads.isEmpty { report.add("none in the queue") }
        report.add(
            loads.map { load in
                let waiting = FetchPriority.allCases.reversed()
                    .map { "\(load.waiting[$0] ?? 0) \($0)" }.joined(separator: ", ")
                return "\(Self.address(load.host)): \(load.underWay) in flight; waiting: \(waiting)"
            }
        )
    }

    private mutating func addCache() {
        let survey = client.queries.entries.survey()
        let total = survey.total
        set(.memoryEntries, total.entries)
        set(.memoryBytes, total.bytes)
        set(.memoryLimit, configuration.memoryBytes)
        set(.memoryObserved, total.observed)
        set(.entriesFresh, total.fresh)
        set(.entriesStale, total.stale)
        set(.entriesFailed, total.failed)
        set(.declarationsInConflict, client.queries.entries.registry.conflicts)
        report.section("cache")
        if survey.scopes.isEmpty { report.add("no entries in memory") }
        for audience in [Policy.Audience.user, .device, .everyone] {
            guard let scope = survey.scopes[audience] else { continue }
            report.add(
                """
                \(audience.rawValue): \(scope.entries) in memory, \(scope.bytes) bytes, \
                \(scope.fresh) fresh, \(scope.stale) stale, \(scope.failed) failed
                """
            )
        }
        if !survey.recent.isEmpty { report.section("entries, the last used first") }
        report.add(
            survey.recent.map { row in
                let arrival = row.state.held.map { ["arrived \(report.age($0.asOf))"] } ?? []
                let parts = [row.isFresh ? "fresh" : "not fresh"] + arrival
                let state = (parts + [row.state.debugDescription]).joined(separator: ", ")
                return "\(row.name) (\(row.audience.rawValue)): \(state)"
            },
            of: total.entries
        )
        report.section("failures")
        if survey.failures.isEmpty { report.add("no entry has failed") }
        let failures = survey.failures.sorted {
            ($1.value, $0.key.name, $0.key.code) < ($0.value, $1.key.name, $1.key.code)
        }
        report.add(
            failures.map { "\($0.key.name): \($0.key.code), entries: \($0.value)" }
        )
    }

    private mutating func addImages() {
        let numbers = client.images.statistics
        set(.imagesInMemory, numbers.memoryImages)
        set(.imagesMemoryBytes, numbers.memoryBytes)
        set(.imagesMemoryLimit, configuration.images.memoryBytes)
        set(.imagesVisible, numbers.visibleImages)
        set(.imagesDiskBytes, numbers.diskBytes)
        set(.imagesMissed, numbers.misses)
        set(.imagesFailed, numbers.failed)
        report.section("images")
        guard numbers.wereUsed else { return report.add("none were requested") }
        for line in "\(numbers)".split(separator: "\n") { report.add(String(line)) }
    }

    private mutating func addOutbox(_ survey: OutboxSurvey) {
        set(.outboxOperations, survey.count)
        set(.outboxLimit, RecordLimits.operations)
        // The survey has the first operations, which are the oldest.
        if let oldest = survey.rows.map(\.created).min() {
            set(.outboxOldest, (now - oldest).components.seconds)
        }
        report.section("outbox")
        report.add(survey.state)
        report.add(
            survey.rows.map { row in
                var parts = ["lane \(row.lane): \(row.name)", row.phase]
                parts.append("created \(report.age(row.created))")
                if row.attempts > 0 { parts.append("failed in a row: \(row.attempts)") }
                if let due = row.due { parts.append("next try due \(report.age(due))") }
                if let failure = row.failure { parts.append("last error \(failure)") }
                return parts.joined(separator: ", ")
            },
            of: survey.count
        )
    }

    private mutating func addFeed(_ feed: UserFeed) {
        set(.feedActive, feed.isActive)
        set(.feedLive, feed.isLive)
        set(.feedFailures, feed.failuresInARow)
        set(.feedBehind, feed.lag)
        report.section("feed")
        report.add(feed.survey)
    }

    private mutating func addBalance(_ keeper: BalanceKeeper) {
        let calls = keeper.calls
        set(.callsPending, keeper.pendingCalls.count)
        set(.callsUnread, calls.count)
        set(.callsWaiting, calls.count { $0.state == .waiting })
        report.section("balance")
        let source = keeper.currentValue()
        guard let balance = source.box?.value(as: Balance.self) else {
            return report.add("unknown")
        }
        set(.balanceAvailable, balance.available)
        set(.balanceHeld, balance.held)
        if let asOf = source.asOf { set(.balanceAge, (now - asOf).components.seconds) }
        let arrival = source.asOf.map { ", arrived \(report.age($0))" } ?? ""
        report.add(
            "available \(balance.available), held \(balance.held), at \(balance.head)\(arrival)"
        )
        report.add("calls not in it: \(keeper.pendingCalls.count), unread: \(calls.count)")
    }

    private mutating func addStorage(_ folder: UserFolders.Folder?) {
        let state = client.storeReport
        set(.diskFailed, state.failure != nil)
        set(.diskMovedAside, state.movedAside.count)
        set(.diskDroppedRows, state.droppedRows)
        set(.diskUnreadableRecords, state.unreadableRecords)
        report.section("storage")
        report.add("place: \(state.place)")
        report.add(
            """
            moved aside: \(state.movedAside.count), dropped rows: \(state.droppedRows), \
            unreadable records: \(state.unreadableRecords)
            """
        )
        let root = configuration.storeFolder
        if let failure = state.failure {
            report.add("last error: " + failure.withoutPaths(root))
        }
        var files = root.map { StoredFile.all(in: $0, under: "") } ?? []
        if let folder { files += StoredFile.all(in: folder.url, under: "users/\(folder.number)/") }
        set(.diskBytes, files.map(\.bytes).reduce(0, +))
        report.add(files.map { "\($0.name): \($0.bytes) bytes" })
    }

    private mutating func addSwitches() {
        let current = client.services.switches.current
        report.section("switches")
        report.add(current.revision == 0 ? "none were received" : "revision \(current.revision)")
        report.add(current.switches.lines)
    }

    private mutating func addMetrics() {
        var summary = client.metrics.summary()
        addFigures(of: summary)
        let left = [summary.queries.count, summary.operations.count]
            .map { max(0, $0 - MetricsLimits.reportRows) }.reduce(0, +)
        summary.queries = Array(summary.queries.prefix(MetricsLimits.reportRows))
        summary.operations = Array(summary.operations.prefix(MetricsLimits.reportRows))
        report.section("metrics")
        for line in "\(summary)".split(separator: "\n") { report.add(String(line)) }
        if left > 0 { report.add("… and \(left) more") }
    }

    private mutating func addFigures(of summary: MetricsSummary) {
        let rows = summary.queries
        let sums: [(DebugFigure, (MetricsSummary.Row) -> Int)] = [
            (.readsCount, \.reads), (.readsHit, \.hits), (.readsStale, \.staleHits),
            (.readsMissed, \.misses), (.fetchesCount, \.flights), (.fetchesInFlight, \.inFlight),
            (.fetchesRetried, \.retries), (.fetchesFailed, \.failures),
            (.fetchesCancelled, \.cancellations), (.fetchesSlow, \.slow),
        ]
        for (figure, number) in sums { set(figure, rows.map(number).reduce(0, +)) }
        if let slowest = rows.compactMap({ $0.durations?.p99 }).max() {
            set(.fetchesSlowest, slowest.wholeMilliseconds)
        }
        if let outcomes = summary.outbox {
            set(.outboxPerformed, outcomes.performed)
            set(.outboxTakenBack, outcomes.refused)
        }
        if let mismatches = summary.balanceMismatches { set(.balanceMismatches, mismatches) }
    }

    /// Returns scheme, host and port: neither credentials nor a path.
    private static func address(_ url: URL) -> String { address(url.hostKey) }

    private static func address(_ hostKey: String) -> String {
        let parts = hostKey.split(separator: " ")
        guard parts.count == 3 else { return "an address without a host" }
        return "\(parts[0])://\(parts[1]):\(parts[2])"
    }
}

/// A file of the client, and its size.
private struct StoredFile {
    let name: String
    let bytes: Int64

    /// Returns the client's own files in a folder, by name; the app may have others there.
    static func all(in folder: URL, under prefix: String) -> [StoredFile] {
        let manager = FileManager.default
        let names = (try? manager.contentsOfDirectory(atPath: folder.path)) ?? []
        let own = names.filter { name in
            ["sanguine-", "present", "device-identity"].contains { name.hasPrefix($0) }
        }
        return own.sorted().compactMap { name in
            let path = folder.appending(path: name).path
            guard let attributes = try? manager.attributesOfItem(atPath: path),
                attributes[.type] as? FileAttributeType == .typeRegular,
                let size = attributes[.size] as? NSNumber
            else { return nil }
            return StoredFile(name: prefix + name, bytes: size.int64Value)
        }
    }
}

extension String {
    /// The text without the paths of the client's folder and of the user's home, which name the
    /// user of the device.
    fileprivate func withoutPaths(_ folder: URL?) -> String {
        let paths: [(String?, String)] = [(folder?.path, "<folder>"), (NSHomeDirectory(), "~")]
        return paths.reduce(self) { text, replacement in
            guard let path = replacement.0, path.count > 1 else { return text }
            return text.replacingOccurrences(of: path, with: replacement.1)
        }
    }
}
