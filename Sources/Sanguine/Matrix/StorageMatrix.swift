import SanguineModel

/// How each query of an app is kept: the storage matrix, printed from the policies themselves.
///
/// Its description is a table in plain text, and it encodes to JSON for programs.
///
/// ```swift
/// print(client.matrix())
/// ```
public struct StorageMatrix: Hashable, Sendable, Codable {
    /// A query with one of its policies.
    public struct Row: Hashable, Sendable, Codable {
        /// How the matrix knows of the query.
        public enum Standing: String, Hashable, Sendable, Codable {
            /// It was declared to the client.
            case declared
            /// It was used without having been declared to the client.
            case undeclared
            /// Its name has several policies. Give each query a name of its own.
            case conflict
        }

        /// What the query is called.
        public var name: String
        /// How the matrix knows of it.
        public var standing: Standing
        /// For how long a value counts as true: `5 min`, `until midnight`, `never`.
        public var freshness: String
        /// For how long a value may be shown.
        public var kept: String
        /// Where it is kept: `inMemory` or `onDisk`.
        public var tier: String
        /// Whose it is: `user`, `device` or `everyone`.
        public var audience: String
        /// How long a request may take.
        public var timeout: String
        /// How often a request is tried, the first time included.
        public var attempts: Int
        /// What goes first: `visible`, `normal` or `prefetch`.
        public var priority: String
        /// What makes a value stale besides its age: `foreground`, `networkBack`, `midnight`.
        public var refetchedOn: [String]
        /// How often an observed value is fetched; `nil` if never by itself.
        public var polled: String?
        /// The names under which values are invalidated together.
        public var tags: [String]
        /// What values are made of.
        public var dependencies: [String]
        /// The version of the value's type.
        public var version: Int
    }

    /// The rows, by name.
    public var rows: [Row]
    /// How often a use was left out because the limits of the matrix were reached.
    public var leftOut: Int

    /// Puts the matrix of declarations together.
    ///
    /// - Parameters:
    ///   - declared: What the app declares. The same query may occur more than once.
    ///   - seen: What was used.
    ///   - leftOut: How many uses are missing.
    public init(
        declared: [QueryDeclaration],
        seen: [QueryDeclaration] = [],
        leftOut: Int = 0
    ) {
        self.leftOut = leftOut
        let declaredOnes = Set(declared)
        let policies = Dictionary(grouping: declaredOnes.union(seen), by: \.name)
        rows = policies.values.flatMap { group in
            group.map { query in
                let standing: Row.Standing =
                    group.count > 1
                    ? .conflict : declaredOnes.contains(query) ? .declared : .undeclared
                return Row(query, standing)
            }
        }
        // By all that is told apart, so that the same queries always print the same table.
        rows.sort { ($0.name, "\($0)") < ($1.name, "\($1)") }
    }
}

extension StorageMatrix.Row {
    fileprivate init(_ query: QueryDeclaration, _ standing: Standing) {
        let policy = query.policy
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
        if leftOut > 0 { text.append("(\(leftOut) more were used and are not listed.)") }
        return text.joined(separator: "\n")
    }
}

extension StorageMatrix.Row {
    fileprivate var cells: [String] {
        func list(_ items: [String]) -> String {
            items.isEmpty ? "-" : items.joined(separator: ", ")
        }
        return [
            name, freshness, kept, tier, audience, timeout, "\(attempts)", priority,
            list(refetchedOn), polled ?? "-", list(tags), list(dependencies), "\(version)",
            standing == .declared ? "" : standing.rawValue,
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
    /// The duration in the largest unit of which it is a whole number: `5 min`, `90 s`, `250 ms`.
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
