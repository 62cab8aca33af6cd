/// What a client has measured since it was created, or since the last reset.
///
/// Printed, it is a table; encoded, it can be sent wherever an app sends its telemetry. It holds
/// names and numbers and nothing personal.
public struct MetricsSummary: Codable, Hashable, Sendable {
    /// How long something took: of a hundred, so many were not slower.
    public struct Percentiles: Hashable, Sendable {
        /// Half of them took no longer.
        public var p50: Duration
        /// Nine of ten took no longer.
        public var p90: Duration
        /// 99 of 100 took no longer.
        public var p99: Duration
        /// None took longer; exact, while the others are right to a hundredth.
        public var max: Duration

        /// Creates percentiles.
        public init(p50: Duration, p90: Duration, p99: Duration, max: Duration) {
            (self.p50, self.p90, self.p99, self.max) = (p50, p90, p99, max)
        }
    }

    /// The numbers of one name.
    public struct Row: Codable, Hashable, Sendable {
        /// The query's name; or `other`, for all past the limit.
        public var name: String
        /// Reads that got a value at once: from `cached` whatever its age, else a fresh one.
        public var hits: Int
        /// Reads that found a value that was no longer fresh, and waited for a newer one.
        public var staleHits: Int
        /// Reads that found no value: they waited for one, or got nothing.
        public var misses: Int
        /// Fetches that took off; or operations that began.
        public var flights: Int
        /// Those that are under way now.
        public var inFlight: Int
        /// Attempts past the first of a fetch.
        public var retries: Int
        /// Fetches that ended with an error, or operations that threw.
        public var failures: Int
        /// Fetches that ended because nobody wanted them any more.
        public var cancellations: Int
        /// Those that took over a second.
        public var slow: Int
        /// How long they took, cancelled ones left out; `nil` before the first has ended.
        public var durations: Percentiles?

        /// Creates the numbers of a name; each is 0 unless it is given.
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

    /// The queries, by name.
    public var queries: [Row]
    /// The operations of the app's own, by name; see `SanguineClient.measure`.
    public var operations: [Row]

    /// Creates a summary, as a fake or a preview needs it.
    public init(queries: [Row] = [], operations: [Row] = []) {
        (self.queries, self.operations) = (queries, operations)
    }

    /// The numbers of that query, or `nil` if it was not used.
    public subscript(query name: String) -> Row? { queries.first { $0.name == name } }

    /// The numbers of that operation, or `nil` if it was not used.
    public subscript(operation name: String) -> Row? { operations.first { $0.name == name } }
}

extension MetricsSummary.Row {
    /// All reads.
    public var reads: Int { hits + staleHits + misses }

    /// The part of reads that got a value at once and waited for no fetch, from 0 to 1; `nil`
    /// without reads.
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

    /// Reads seconds, with fractions.
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

    /// Writes seconds, with fractions down to microseconds.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        for (key, value) in [(Key.p50, p50), (.p90, p90), (.p99, p99), (.max, max)] {
            try container.encode(Double(value.microseconds) / 1_000_000, forKey: key)
        }
    }
}
