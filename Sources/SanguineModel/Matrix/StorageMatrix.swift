/// The storage matrix: where the answers, values, lists and records of an app are stored, for how
/// long, and for which users.
///
/// It is made from the declarations of functions, queries, lists, ranges and collections. The
/// description is plain text; ``markdown`` is for documents, and the encoded form for programs.
///
/// ```swift
/// print(client.matrix())
/// ```
public struct StorageMatrix: Hashable, Sendable, Codable {
    /// The rows, by name.
    public var rows: [Row]
    /// The number of uses left out because the limits of the matrix were reached.
    public var leftOut: Int
    /// A line for each switch of the server, such as `function ask: timeout 120 s`; `nil` for none.
    public var switches: [String]?

    /// Creates a matrix of rows.
    ///
    /// - Parameters:
    ///   - rows: The rows.
    ///   - leftOut: The number of uses that are missing. Default: 0.
    ///   - switches: The switches of the server, which are listed. Default: none.
    public init(rows: [Row], leftOut: Int = 0, switches: Switches = Switches()) {
        // Sorted by all members, so that the same declarations always print the same table.
        self.rows = rows.map { ($0, "\($0)") }
            .sorted { ($0.0.name, $0.1) < ($1.0.name, $1.1) }
            .map(\.0)
        self.leftOut = leftOut
        self.switches = switches.isEmpty ? nil : switches.lines
    }

    /// Returns the first row with a name, or `nil` if there is none.
    public subscript(name: String) -> Row? { rows.first { $0.name == name } }
}

extension StorageMatrix {
    /// The storage of a function, query, list, range or collection.
    public struct Row: Hashable, Sendable, Codable {
        /// The kind of declaration.
        public enum Kind: String, Hashable, Sendable, Codable {
            /// A metered function of the server.
            case function
            /// A single value.
            case query
            /// A list that is loaded in pages.
            case list
            /// Values that are indexed by days or numbers.
            case range
            /// Records that are synchronized.
            case collection
        }

        /// The way in which the matrix knows the row.
        public enum Standing: String, Hashable, Sendable, Codable {
            /// It was declared.
            case declared
            /// It was used without a declaration.
            case undeclared
            /// Declarations of one name store it in different ways; give each its own name.
            case conflict
        }

        /// The name.
        public var name: String
        /// The kind of declaration.
        public var kind: Kind
        /// The way in which the matrix knows the row.
        public var standing: Standing
        /// The storage on the server.
        public var server: Server
        /// The storage on the client.
        public var client: Client
        /// The source of the data after the client's local data was cleared; see ``Restored``.
        public var restored: Restored
        /// The policies with which it is read; empty if it is not read by a query.
        public var readers: [Reader]
        /// The members that a switch of the server replaces: `freshness`, `timeout`, `optimism`;
        /// `nil` for none.
        public var switched: [String]?
        /// A limit of what the cells say: `not cached in threads` for a function whose context is a
        /// part of the key of a cached answer; `nil` for none.
        public var remark: String?

        /// Creates a row.
        public init(
            name: String,
            kind: Kind,
            standing: Standing = .declared,
            server: Server,
            client: Client = Client(),
            restored: Restored,
            readers: [Reader] = []
        ) {
            (self.name, self.kind, self.standing) = (name, kind, standing)
            (self.server, self.client, self.restored) = (server, client, restored)
            self.readers = readers
        }
    }

    /// The source of the data after the client's local data was cleared and its account has signed
    /// in again.
    public enum Restored: String, Hashable, Sendable, Codable {
        /// None: a function runs again, and is charged again.
        case no
        /// The cache of the server: the next call returns the cached answer.
        case serverCache = "server cache"
        /// The next read fetches it.
        case nextRead = "next read"
        /// The feed sends it, without a request by the app.
        case feed
    }

    /// The storage on the server.
    public struct Server: Hashable, Sendable, Codable {
        /// The time for which an answer is cached: `5 min`, `until midnight`, `session`,
        /// `for ever`, `until birth changes`.
        ///
        /// `none` without a cache, `database` for data that the server itself stores, and `backend`
        /// for data of the app's own backend.
        public var cached: String
        /// The recipients of a cached answer, or the readers of records.
        ///
        /// `account`, `session`, `readers` or `everyone`; `none` if the server stores nothing, and
        /// `backend` if the app's own backend decides. Threads are read by their account only.
        public var audience: String
        /// The history that the server keeps: `threads`, `records`, `ledger`, or `none`.
        public var history: String

        /// Creates the cells.
        public init(cached: String = "none", audience: String = "none", history: String = "none") {
            (self.cached, self.audience, self.history) = (cached, audience, history)
        }

        /// Data of the app's own backend.
        public static let backend = Self(cached: "backend", audience: "backend", history: "backend")
    }

    /// The storage on the client.
    public struct Client: Hashable, Sendable, Codable {
        /// The time for which a value is used without a fetch: `5 min`, `until midnight`, `never`;
        /// `feed` if the feed updates it, and `none` if the client stores nothing.
        public var fresh: String
        /// The time for which a value may be shown: `30 days`, `until sign-out`, or `none`.
        public var kept: String
        /// The place where values are stored: `inMemory`, `onDisk`, or `none`.
        public var tier: String
        /// The users who see a stored value: `user`, `device`, `everyone`, or `none`.
        public var audience: String
        /// The history that the client keeps: `mirror` of the server's, `last 10`, or `none`.
        public var history: String
        /// The events that make a value stale: `foreground`, `networkBack`, `midnight`.
        public var refetchedOn: [String] = []
        /// The interval at which an observed value is fetched; `nil` if it is not polled.
        public var polled: String?
        /// The tags of the values; a tag invalidates all values that have it.
        public var tags: [String] = []
        /// The names of the values' dependencies.
        public var dependencies: [String] = []
        /// The version of the value's type.
        public var version = 1

        /// Creates the cells; by default, nothing is stored.
        public init(
            fresh: String = "none",
            kept: String = "none",
            tier: String = "none",
            audience: String = "none",
            history: String = "none"
        ) {
            (self.fresh, self.kept, self.tier) = (fresh, kept, tier)
            (self.audience, self.history) = (audience, history)
        }
    }

    /// A policy with which a value is read.
    ///
    /// Several readers of one value may demand a different freshness, or wait differently for it.
    public struct Reader: Hashable, Sendable, Codable {
        /// The time for which the reader uses a value without a fetch.
        public var fresh: String
        /// The time limit of one request.
        public var timeout: String
        /// The maximum number of attempts, including the first.
        public var attempts: Int
        /// The priority of requests: `visible`, `normal` or `prefetch`.
        public var priority: String
        /// The file and the line of the declaration: `App/Profile.swift:12`; `nil` if unknown.
        public var place: String?

        /// Creates a reader.
        public init(
            fresh: String,
            timeout: String,
            attempts: Int,
            priority: String,
            place: String? = nil
        ) {
            (self.fresh, self.timeout, self.attempts) = (fresh, timeout, attempts)
            (self.priority, self.place) = (priority, place)
        }
    }
}

// MARK: - Rows of declarations

extension StorageMatrix.Row {
    /// Creates the row of a function, whose answers the client does not cache.
    public init(
        function name: String,
        rules: FunctionRules,
        standing: Standing = .declared
    ) {
        let cache = rules.cache
        let isCached = cache.lifetime != .none
        let audience =
            switch (cache.lifetime, cache.audience) {
            case (.none, _): rules.keepsHistory ? "account" : "none"
            case (.session, _): "session"
            case (_, .account): "account"
            case (_, .everyone): "everyone"
            }
        let restored: StorageMatrix.Restored =
            rules.keepsHistory
            ? .feed : isCached && cache.lifetime != .session ? .serverCache : .no
        self.init(
            name: name,
            kind: .function,
            standing: standing,
            server: StorageMatrix.Server(
                cached: cache.inWords,
                audience: audience,
                history: rules.keepsHistory ? "threads" : "none"
            ),
            client: StorageMatrix.Client(history: rules.keepsHistory ? "mirror" : "none"),
            restored: restored
        )
        if rules.missesCacheInThreads { remark = "not cached in threads" }
    }

    /// The row of the server's ``Switches``, which every client of a server receives.
    public static let config = Self(
        name: Switches.collection,
        kind: .collection,
        server: StorageMatrix.Server(cached: "database", audience: "everyone"),
        client: StorageMatrix.Client(
            fresh: "feed",
            kept: "for ever",
            tier: "onDisk",
            audience: "device"
        ),
        restored: .feed
    )

    /// Creates the row of a collection of records.
    public init(collection: RecordCollection) {
        self.init(
            name: collection.name,
            kind: .collection,
            server: StorageMatrix.Server(
                cached: "database",
                audience: collection.access == .owner
                    ? "account" : collection.access.rawValue,
                history: "records"
            ),
            client: StorageMatrix.Client(
                fresh: "feed",
                kept: "until sign-out",
                tier: "onDisk",
                audience: "user",
                history: "mirror"
            ),
            restored: .feed
        )
    }
}

extension ResultCache {
    /// The lifetime as the matrix shows it.
    fileprivate var inWords: String {
        switch lifetime {
        case .none: "none"
        case .duration(let duration): duration.inWords
        case .midnight: "until midnight"
        case .session: "session"
        case .forever: "for ever"
        case .facts(let names): "until \(names.sorted().joined(separator: " or ")) changes"
        }
    }
}

extension Duration {
    /// The duration in the largest unit that divides it: `5 min`, `90 s`, `250 ms`.
    package var inWords: String {
        let units: [(String, Int64)] = [
            ("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000),
        ]
        let value = wholeMilliseconds
        guard value != 0, let unit = units.first(where: { value.isMultiple(of: $0.1) })
        else { return value == 0 ? "0 s" : "\(value) ms" }
        return "\(value / unit.1) \(unit.0)"
    }
}
