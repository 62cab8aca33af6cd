import Logging
import Synchronization

/// What a client measures of itself, by the names of queries: nothing personal, and always on.
///
/// ```swift
/// logger.info("\(client.metrics.summary())")
/// ```
///
/// Counting costs an atomic addition for each read. A name's durations take 12 KiB, from its first
/// fetch on; there are at most ``MetricsLimits/names`` names of queries, and as many of operations.
public final class ClientMetrics: Sendable {
    private enum Kind { case query, operation }

    // Rows stay for good: entries of the cache hold them. Guarded by the mutex.
    private struct Guarded {
        var queries: [String: NamedMetrics] = [:]
        var operations: [String: NamedMetrics] = [:]
    }

    static let nameOfOthers = "other"

    private let guarded = Mutex(Guarded())
    private let watch: Stopwatch
    private let logger: Logger
    let relay: EventRelay

    init(
        clock: any Clock<Duration>,
        observer: (any ClientObserver)? = nil,
        logger: Logger
    ) {
        watch = Stopwatch(clock)
        relay = EventRelay(observer: observer)
        self.logger = logger
    }

    /// The numbers of a query.
    ///
    /// Look them up once and keep them.
    func named(_ name: String) -> NamedMetrics {
        guarded.withLock { named(name, in: &$0.queries) }
    }

    /// The numbers of an operation of the app's own.
    func operation(_ name: String) -> NamedMetrics {
        guarded.withLock { named(name, in: &$0.operations) }
    }

    /// All numbers as they stand, by name.
    public func summary() -> MetricsSummary {
        let (queries, operations) = guarded.withLock {
            (Array($0.queries.values), Array($0.operations.values))
        }
        return MetricsSummary(
            queries: Self.rows(of: queries),
            operations: Self.rows(of: operations)
        )
    }

    /// Starts all counts and durations again.
    ///
    /// What is in flight stays counted as such.
    public func reset() {
        let all = guarded.withLock { Array($0.queries.values) + Array($0.operations.values) }
        for metrics in all { metrics.reset() }
    }

    /// Tells the observer of something that has no numbers here.
    ///
    /// May be called under any lock.
    func note(_ event: @autoclosure () -> ClientEvent) { relay.post(event()) }

    private func named(_ name: String, in table: inout [String: NamedMetrics]) -> NamedMetrics {
        var name = name
        if name.utf8.count > MetricsLimits.nameCharacters {
            name = String(name.prefix(MetricsLimits.nameCharacters))
        }
        if let known = table[name] { return known }
        if table.count >= MetricsLimits.names - 1 { name = Self.nameOfOthers }
        if let known = table[name] { return known }
        let metrics = NamedMetrics(name: name, watch: watch, relay: relay, logger: logger)
        table[name] = metrics
        return metrics
    }

    private static func rows(of metrics: [NamedMetrics]) -> [MetricsSummary.Row] {
        metrics.map(\.row).filter(\.hasNumbers).sorted { $0.name < $1.name }
    }
}
