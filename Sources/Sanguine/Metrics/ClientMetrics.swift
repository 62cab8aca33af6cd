import Logging
import Synchronization

/// The metrics of a client, by the names of queries: always on, without personal data.
///
/// ```swift
/// logger.info("\(client.metrics.summary())")
/// ```
///
/// Counting costs one atomic addition for each read. The durations of a name take 12 KiB once it
/// has been fetched. There are at most ``MetricsLimits/names`` names of queries, and as many of
/// operations.
public final class ClientMetrics: Sendable {
    private enum Kind { case query, operation }

    // Rows are never removed, because cache entries refer to them. Guarded by the mutex.
    private struct Guarded {
        var queries: [String: NamedMetrics] = [:]
        var operations: [String: NamedMetrics] = [:]
        var images: (@Sendable () -> ImageStatistics)?
    }

    static let nameOfOthers = "other"
    private static let nameOfBalance = "$balance"

    private let guarded = Mutex(Guarded())
    private let watch: Stopwatch
    private let logger: Logger
    let relay: EventRelay
    let analytics = ClientAnalytics()
    let outbox = OutboxCounters()
    /// Logs steps; `nil` if that is off.
    let steps: StepLog?
    private let balanceMismatches = Atomic(0)
    private let ignoredSwitches = Atomic(0)

    init(
        clock: any Clock<Duration>,
        observer: (any ClientObserver)? = nil,
        logger: Logger
    ) {
        watch = Stopwatch(clock)
        relay = EventRelay(observer: observer)
        self.logger = logger
        steps = StepLog(logger)
    }

    /// Returns the metrics of a query.
    ///
    /// Look them up once and keep them.
    func named(_ name: String) -> NamedMetrics {
        guarded.withLock { named(name, in: &$0.queries) }
    }

    /// Returns the metrics of one of the app's operations.
    func operation(_ name: String) -> NamedMetrics {
        guarded.withLock { named(name, in: &$0.operations) }
    }

    /// Returns the current metrics, by name.
    public func summary() -> MetricsSummary {
        let (queries, operations, images) = guarded.withLock {
            (Array($0.queries.values), Array($0.operations.values), $0.images)
        }
        let numbers = images?()
        return MetricsSummary(
            queries: Self.rows(of: queries),
            operations: Self.rows(of: operations),
            outbox: outbox.outcomes,
            balanceMismatches: balanceMismatches.load(ordering: .relaxed),
            ignoredSwitches: ignoredSwitches.load(ordering: .relaxed),
            images: numbers?.wereUsed == true ? numbers : nil
        )
    }

    /// Resets all counts and durations.
    ///
    /// Fetches and operations in flight stay counted.
    public func reset() {
        let all = guarded.withLock { Array($0.queries.values) + Array($0.operations.values) }
        for metrics in all { metrics.reset() }
        outbox.reset()
        balanceMismatches.store(0, ordering: .relaxed)
        ignoredSwitches.store(0, ordering: .relaxed)
    }

    /// Sets the closure that returns the numbers of the images; these are not reset.
    func count(images: @escaping @Sendable () -> ImageStatistics) {
        guarded.withLock { $0.images = images }
    }

    /// Counts parts of the server's configuration that have no effect.
    func countIgnoredSwitches(_ count: Int) { ignoredSwitches.add(count, ordering: .relaxed) }

    /// Counts a balance that differed from the shown one, and reports it to the app's analytics.
    func countBalanceMismatch() {
        balanceMismatches.wrappingAdd(1, ordering: .relaxed)
        analytics.post(.balanceMismatch)
    }

    /// Notifies the observer of an event that is not counted here.
    ///
    /// May be called under any lock.
    func notifyObserver(_ event: @autoclosure () -> ClientEvent) { relay.post(event()) }

    private func named(_ name: String, in table: inout [String: NamedMetrics]) -> NamedMetrics {
        var name = name
        if name.utf8.count > MetricsLimits.nameCharacters {
            name = String(name.prefix(MetricsLimits.nameCharacters))
        }
        if let known = table[name] { return known }
        if table.count >= MetricsLimits.names - 1 { name = Self.nameOfOthers }
        if let known = table[name] { return known }
        let metrics = NamedMetrics(
            name: name,
            watch: watch,
            relay: relay,
            logger: logger,
            analytics: name == Self.nameOfBalance ? analytics : nil
        )
        table[name] = metrics
        return metrics
    }

    private static func rows(of metrics: [NamedMetrics]) -> [MetricsSummary.Row] {
        metrics.map(\.row).filter(\.hasNumbers).sorted { $0.name < $1.name }
    }
}
