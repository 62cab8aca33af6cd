/// The metrics of a client since it was created or reset.
///
/// The description is a table; the encoded form suits an app's telemetry. The summary contains
/// names and numbers, but no personal data.
public struct MetricsSummary: Codable, Hashable, Sendable {
    /// The percentiles of durations.
    public struct Percentiles: Hashable, Sendable {
        /// Half of the durations are at most this long.
        public var p50: Duration
        /// 90 % of the durations are at most this long.
        public var p90: Duration
        /// 99 % of the durations are at most this long.
        public var p99: Duration
        /// The longest duration; exact, while the others are accurate to one percent.
        public var max: Duration

        /// Creates percentiles.
        public init(p50: Duration, p90: Duration, p99: Duration, max: Duration) {
            (self.p50, self.p90, self.p99, self.max) = (p50, p90, p99, max)
        }
    }

    /// The metrics of one name.
    public struct Row: Codable, Hashable, Sendable {
        /// The query's name, or `other` for all names past the limit.
        public var name: String
        /// Reads that got a value at once: any value from `cached`, a fresh one from other methods.
        public var hits: Int
        /// Reads that found a stale value and waited for a newer one.
        public var staleHits: Int
        /// Reads that found no value, and waited for one or got none.
        public var misses: Int
        /// Fetches or operations that began.
        public var flights: Int
        /// Fetches or operations in progress.
        public var inFlight: Int
        /// Attempts after the first one of a fetch.
        public var retries: Int
        /// Fetches that failed, or operations that threw.
        public var failures: Int
        /// Fetches that were cancelled with their last caller.
        public var cancellations: Int
        /// Fetches or operations that took over a second.
        public var slow: Int
        /// The durations, without cancelled fetches; `nil` before the first one has ended.
        public var durations: Percentiles?

        /// Creates the metrics of a name; each number is 0 by default.
        public init(
            name: String,
            hits: Int = 0,
            staleHits: Int = 0,
            misses: Int = 0,
            flights: Int = 0,
            inFlight: Int = 0,
            retries: Int = 0,
            failures: Int = 0,
            cancellations: Int = 0,
            slow: Int = 0,
            durations: Percentiles? = nil
        ) {
            self.name = name
            self.hits = hits
            self.staleHits = staleHits
            self.misses = misses
            self.flights = flights
            self.inFlight = inFlight
            self.retries = retries
            self.failures = failures
            self.cancellations = cancellations
            self.slow = slow
            self.durations = durations
        }
    }

    /// The outcomes of the outbox's operations.
    public struct Outcomes: Codable, Hashable, Sendable {
        /// The operations that the server performed.
        public var performed: Int
        /// The operations that the server refused, so that their effects were taken back.
        public var refused: Int

        /// Creates the outcomes.
        public init(performed: Int = 0, refused: Int = 0) {
            (self.performed, self.refused) = (performed, refused)
        }

        /// The fraction of operations that were taken back, from 0 to 1; `nil` without operations.
        public var refusedShare: Double? {
            let all = performed + refused
            return all == 0 ? nil : Double(refused) / Double(all)
        }
    }

    /// The queries, by name.
    public var queries: [Row]
    /// The app's operations, by name; see `SanguineClient.measure`.
    public var operations: [Row]
    /// The outcomes of the outbox's operations; `nil` in a summary of an earlier version.
    public var outbox: Outcomes?
    /// The number of times that the server's balance differed from the shown one after all charges
    /// of this device had settled; `nil` in a summary of an earlier version.
    public var balanceMismatches: Int?
    /// The number of switches without an effect, because the app does not declare the name or the
    /// value is not valid; `nil` in a summary of an earlier version.
    public var ignoredSwitches: Int?
    /// The statistics of images; `nil` before the first request for one, and in a summary of an
    /// earlier version.
    public var images: ImageStatistics?

    /// Creates a summary, for tests and previews.
    public init(
        queries: [Row] = [],
        operations: [Row] = [],
        outbox: Outcomes? = nil,
        balanceMismatches: Int? = nil,
        ignoredSwitches: Int? = nil,
        images: ImageStatistics? = nil
    ) {
        (self.queries, self.operations, self.outbox) = (queries, operations, outbox)
        self.balanceMismatches = balanceMismatches
        self.ignoredSwitches = ignoredSwitches
        self.images = images
    }

    /// The metrics of a query, or `nil` if it was not used.
    public subscript(query name: String) -> Row? { queries.first { $0.name == name } }

    /// The metrics of an operation, or `nil` if it was not used.
    public subscript(operation name: String) -> Row? { operations.first { $0.name == name } }
}

extension MetricsSummary.Row {
    /// The number of all reads.
    public var reads: Int { hits + staleHits + misses }

    /// The fraction of reads that got a value at once, from 0 to 1; `nil` without reads.
    public var hitRate: Double? { reads == 0 ? nil : Double(hits) / Double(reads) }

    var hasNumbers: Bool {
        reads + flights + inFlight + retries + failures + cancellations > 0 || durations != nil
    }
}

extension MetricsSummary.Percentiles: Codable {
    private enum Key: String, CodingKey {
        case p50 = "p50Seconds"
        case p90 = "p90Seconds"
        case p99 = "p99Seconds"
        case max = "maxSeconds"
    }

    /// Decodes seconds with fractions.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        func duration(_ key: Key) throws -> Duration {
            .microseconds(Int64(try container.decode(Double.self, forKey: key) * 1_000_000 + 0.5))
        }
        self.init(
            p50: try duration(.p50),
            p90: try duration(.p90),
            p99: try duration(.p99),
            max: try duration(.max)
        )
    }

    /// Encodes seconds with fractions, down to microseconds.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        for (key, value) in [(Key.p50, p50), (.p90, p90), (.p99, p99), (.max, max)] {
            try container.encode(Double(value.microseconds) / 1_000_000, forKey: key)
        }
    }
}
