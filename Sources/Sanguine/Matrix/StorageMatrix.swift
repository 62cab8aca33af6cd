import SanguineModel

/// The storage matrix: the policies of an app's queries as a table.
///
/// The description is a plain-text table; for programs, the matrix encodes to JSON.
///
/// ```swift
/// print(client.matrix())
/// ```
public struct StorageMatrix: Hashable, Sendable, Codable {
    /// A query with one of its policies.
    public struct Row: Hashable, Sendable, Codable {
        /// The way in which the matrix knows the query.
        public enum Standing: String, Hashable, Sendable, Codable {
            /// The query was declared to the client.
            case declared
            /// The query was used without a declaration.
            case undeclared
            /// Several policies use this name; give each query its own name.
            case conflict
        }

        /// The name of the query.
        public var name: String
        /// The way in which the matrix knows the query.
        public var standing: Standing
        /// The time for which a value is fresh: `5 min`, `until midnight`, `never`.
        public var freshness: String
        /// The time for which a value may be shown.
        public var kept: String
        /// The place where values are stored: `inMemory` or `onDisk`.
        public var tier: String
        /// The audience of the values: `user`, `device` or `everyone`.
        public var audience: String
        /// The time limit of one request.
        public var timeout: String
        /// The maximum number of attempts, including the first.
        public var attempts: Int
        /// The priority of requests: `visible`, `normal` or `prefetch`.
        public var priority: String
        /// The events that make a value stale: `foreground`, `networkBack`, `midnight`.
        public var refetchedOn: [String]
        /// The interval at which an observed value is fetched; `nil` if it is not polled.
        public var polled: String?
        /// The tags of the values; a tag invalidates all values that have it.
        public var tags: [String]
        /// The names of the values' dependencies.
        public var dependencies: [String]
        /// The version of the value's type.
        public var version: Int
        /// The members that a switch of the server replaces: `freshness`, `timeout`, `optimism`; `nil`
        /// for none.
        public var switched: [String]?
    }

    /// The rows, by name.
    public var rows: [Row]
    /// The number of uses left out because the limits of the matrix were reached.
    public var leftOut: Int
    /// A line for each switch of the server, such as `function ask: timeout 120 s`; `nil` for none.
    public var switches: [String]?

    /// Creates the matrix of declarations.
    ///
    /// - Parameters:
    ///   - declared: The app's declarations. A query may occur more than once.
    ///   - seen: The queries that were used.
    ///   - leftOut: The number of uses that are missing.
    ///   - switches: The switches of the server, which replace parts of the declarations. Default:
    ///     none.
    public init(
        declared: [QueryDeclaration],
        seen: [QueryDeclaration] = [],
        leftOut: Int = 0,
        switches: Switches = Switches()
    ) {
        self.leftOut = leftOut
        self.switches = switches.isEmpty ? nil : switches.lines
        let declaredOnes = Set(declared)
        let policies = Dictionary(grouping: declaredOnes.union(seen), by: \.name)
        rows = policies.values.flatMap { group in
            group.map { query in
                let standing: Row.Standing =
                    group.count > 1
                    ? .conflict : declaredOnes.contains(query) ? .declared : .undeclared
                return Row(query, standing, switches.queries[query.name])
            }
        }
        // Sorted by all members, so that the same queries always print the same table.
        rows.sort { ($0.name, "\($0)") < ($1.name, "\($1)") }
    }
}

extension StorageMatrix.Row {
    fileprivate init(
        _ query: QueryDeclaration,
        _ standing: Standing,
        _ switches: Switches.Query?
    ) {
        var policy = query.policy
        if let seconds = switches?.freshness {
            policy.freshness = seconds == 0 ? .never : .duration(.seconds(seconds))
            policy.adaptive = nil
        }
        if let seconds = switches?.timeout { policy.timeout = .seconds(seconds) }
        name = query.name
        self.standing = standing
        if let bounds = policy.adaptive {
            freshness = "\(bounds.lowerBound.inWords) to \(bounds.upperBound.inWords), adaptive"
        } else {
            freshness = policy.freshness.inWords
        }
        kept = policy.keep.inWords
        tier = policy.tier.rawValue
        audience = policy.audience.rawValue
        timeout = policy.timeout.inWords
        attempts = policy.retry.attempts
        priority = "\(policy.priority)"
        refetchedOn = policy.refetchEvents.names
        polled = policy.polling?.inWords
        tags = policy.tags
        dependencies = policy.dependencies
        version = policy.version
        let members: [(String, Bool)] = [
            ("freshness", switches?.freshness != nil), ("timeout", switches?.timeout != nil),
            ("optimism", switches?.optimism != nil),
        ]
        let replaced = members.filter(\.1).map(\.0)
        switched = replaced.isEmpty ? nil : replaced
    }
}

extension StorageMatrix: CustomStringConvertible {
    /// The matrix as an aligned table in plain text.
    public var description: String {
        let header = [
            "query", "fresh", "kept", "tier", "audience", "timeout", "attempts", "priority",
            "again on", "polled", "tags", "depends on", "version", "note",
        ]
        let lines = [header] + rows.map(\.cells)
        let widths = header.indices.map { column in
            lines.map { $0[column].count }.max() ?? 0
        }
        var text = lines.map { cells in
            let line = zip(cells, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            .joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed())
        }
        if let switches {
            text.append("")
            text += switches.map { "switched by the server: \($0)" }
        }
        if leftOut > 0 { text.append("(\(leftOut) more were used and are not listed.)") }
        return text.joined(separator: "\n")
    }
}

extension StorageMatrix.Row {
    private var note: String {
        let parts = standing == .declared ? [] : [standing.rawValue]
        let replaced = switched.map { ["switched: " + $0.joined(separator: ", ")] } ?? []
        return (parts + replaced).joined(separator: "; ")
    }

    fileprivate var cells: [String] {
        func list(_ items: [String]) -> String {
            items.isEmpty ? "-" : items.joined(separator: ", ")
        }
        return [
            name, freshness, kept, tier, audience, timeout, "\(attempts)", priority,
            list(refetchedOn), polled ?? "-", list(tags), list(dependencies), "\(version)",
            note,
        ]
    }
}

extension Policy.Freshness {
    fileprivate var inWords: String {
        switch self {
        case .duration(let duration): duration.inWords
        case .never: "never"
        case .session: "session"
        case .untilMidnight: "until midnight"
        case .forever: "for ever"
        }
    }
}

extension RefetchEvents {
    fileprivate var names: [String] {
        let all: [(RefetchEvents, String)] = [
            (.foreground, "foreground"), (.networkBack, "networkBack"), (.midnight, "midnight"),
        ]
        return all.filter { contains($0.0) }.map(\.1)
    }
}

extension Duration {
    /// The duration in the largest unit that divides it: `5 min`, `90 s`, `250 ms`.
    fileprivate var inWords: String {
        let units: [(String, Int64)] = [
            ("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000),
        ]
        let value = wholeMilliseconds
        guard value != 0, let unit = units.first(where: { value.isMultiple(of: $0.1) })
        else { return value == 0 ? "0 s" : "\(value) ms" }
        return "\(value / unit.1) \(unit.0)"
    }
}
