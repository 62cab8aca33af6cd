import SanguineModel

/// The entries in memory at one moment, without their values and parameters.
struct CacheSurvey: Sendable {
    /// The statistics of the entries with one audience.
    struct Scope: Hashable, Sendable {
        var entries = 0
        /// The bytes that they take of the memory limit.
        var bytes = 0
        var fresh = 0
        /// Entries with data that must be fetched before it counts as fresh.
        var stale = 0
        /// Entries whose last fetch failed, with or without data.
        var failed = 0
        /// Entries that are observed.
        var observed = 0
    }

    /// One of the most recently used entries.
    struct Row: Sendable {
        let name: String
        let audience: Policy.Audience
        let isFresh: Bool
        let state: EntryState
    }

    /// The name of a query, and the code of the error with which its last fetch failed.
    struct Failure: Hashable, Sendable {
        let name: String
        let code: String
    }

    private(set) var scopes: [Policy.Audience: Scope] = [:]
    /// The number of entries that have failed in the same way.
    private(set) var failures: [Failure: Int] = [:]
    /// The most recently used entries, latest first.
    private(set) var recent: [Row] = []

    /// The statistics of all entries.
    var total: Scope {
        scopes.values.reduce(into: Scope()) { total, scope in
            total.entries += scope.entries
            total.bytes += scope.bytes
            total.fresh += scope.fresh
            total.stale += scope.stale
            total.failed += scope.failed
            total.observed += scope.observed
        }
    }

    /// Creates the survey.
    ///
    /// Called under the lock of ``Entries``, which guards the entries.
    ///
    /// - Parameters:
    ///   - entries: All entries in memory.
    ///   - isFresh: Returns whether the value of an entry can be used without a fetch.
    init(of entries: some Collection<Entry>, isFresh: (Entry) -> Bool) {
        for entry in entries {
            var scope = scopes[entry.audience] ?? Scope()
            scope.entries += 1
            scope.bytes += entry.cost
            if isFresh(entry) {
                scope.fresh += 1
            } else if entry.state.held != nil {
                scope.stale += 1
            }
            if entry.state.isObserved { scope.observed += 1 }
            if let error = entry.state.error {
                scope.failed += 1
                let failure = Failure(name: entry.query.name, code: error.metricsCode)
                failures[failure, default: 0] += 1
            }
            scopes[entry.audience] = scope
        }
        let latest = entries.sorted { $0.lastUse > $1.lastUse }.prefix(MetricsLimits.reportRows)
        recent = latest.map { entry in
            Row(
                name: entry.query.name,
                audience: entry.audience,
                isFresh: isFresh(entry),
                state: entry.state
            )
        }
    }
}
