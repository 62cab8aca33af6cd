/// Replacements for the declared behavior of an app, which a server sends at run time.
///
/// A switch names a query, a function or a mutation, and replaces a part of its declaration until
/// the switch is removed. So a bad release can be corrected without a new build. A switch never
/// changes what is charged or stored, only how fresh a value must be, how long a request may take,
/// and whether a change is shown before its answer.
///
/// ```swift
/// var switches = Switches()
/// switches.queries["profile"] = .init(freshness: 0)
/// switches.functions["ask"] = .init(timeout: 120)
/// switches.mutations["like"] = .init(optimism: false)
/// ```
///
/// As JSON, durations are whole seconds:
///
/// ```json
/// {"queries": {"profile": {"freshness": 0}}, "functions": {"ask": {"timeout": 120}},
///  "mutations": {"like": {"optimism": false}}}
/// ```
public struct Switches: Hashable, Sendable {
    /// The switches of a query, a list or a range.
    ///
    /// `$balance` and `$quotas` take ``freshness`` only.
    public struct Query: Hashable, Sendable {
        /// The time for which a value is fresh, in seconds; 0 for never.
        ///
        /// 0 to ``WireLimits/switchedFreshness``. Default: as declared.
        public var freshness: Int?
        /// The time limit of one request, in seconds.
        ///
        /// ``WireLimits/switchedQueryTimeout``. Default: as declared.
        public var timeout: Int?
        /// Whether values show changes of mutations before they are answered.
        ///
        /// Default: they do.
        public var optimism: Bool?

        /// Creates switches.
        public init(freshness: Int? = nil, timeout: Int? = nil, optimism: Bool? = nil) {
            (self.freshness, self.timeout, self.optimism) = (freshness, timeout, optimism)
        }
    }

    /// The switches of a function.
    public struct Function: Hashable, Sendable {
        /// The time limit of one request, in seconds.
        ///
        /// ``WireLimits/switchedFunctionTimeout``. Default: 60 s.
        public var timeout: Int?
        /// Whether the balance and the quotas show the cost of a call before it is answered.
        ///
        /// Default: they do.
        public var optimism: Bool?

        /// Creates switches.
        public init(timeout: Int? = nil, optimism: Bool? = nil) {
            (self.timeout, self.optimism) = (timeout, optimism)
        }
    }

    /// The switches of a mutation, of records or of any backend.
    public struct Mutation: Hashable, Sendable {
        /// Whether the mutation is shown before it is answered.
        ///
        /// Without optimism, it still waits in the outbox, and is shown after its answer. Default:
        /// it is shown at once.
        public var optimism: Bool?

        /// Creates switches.
        public init(optimism: Bool? = nil) { self.optimism = optimism }
    }

    /// The switches of queries, lists and ranges, by name.
    public var queries: [String: Query] = [:]
    /// The switches of functions, by name.
    public var functions: [String: Function] = [:]
    /// The switches of mutations, by name.
    public var mutations: [String: Mutation] = [:]

    /// Creates an empty configuration: everything is as declared.
    public init() {}

    /// Whether everything is as declared.
    public var isEmpty: Bool { queries.isEmpty && functions.isEmpty && mutations.isEmpty }

    /// The number of names.
    public var count: Int { queries.count + functions.count + mutations.count }
}

extension Switches {
    /// The name of the collection in the feed that contains the switches.
    package static let collection = "$config"

    /// Reads switches from JSON, and leaves out everything that is not a valid switch.
    ///
    /// - Parameter json: The JSON. Members other than the three kinds are faults too.
    /// - Returns: The switches, and a sentence for each fault, in the order of the names.
    package static func reading(_ json: JSONValue) -> (switches: Switches, faults: [String]) {
        var reader = SwitchReader()
        return (reader.read(json), reader.faults)
    }

    /// The switches as JSON; ``reading(_:)`` reads it back without faults.
    package var json: JSONValue {
        func members(_ values: [String: Int?], _ optimism: Bool?) -> JSONValue {
            var members: [String: JSONValue] = [:]
            for case (let name, let value?) in values { members[name] = .integer(Int64(value)) }
            if let optimism { members["optimism"] = .bool(optimism) }
            return .object(members)
        }
        return .object([
            "queries": .object(
                queries.mapValues {
                    members(["freshness": $0.freshness, "timeout": $0.timeout], $0.optimism)
                }
            ),
            "functions": .object(
                functions.mapValues { members(["timeout": $0.timeout], $0.optimism) }
            ),
            "mutations": .object(mutations.mapValues { members([:], $0.optimism) }),
        ])
    }
}

extension Switches {
    /// One line for each switch, for reports.
    package var lines: [String] {
        func line(_ kind: String, _ name: String, _ parts: [String?]) -> String {
            "\(kind) \(name): " + parts.compactMap { $0 }.joined(separator: ", ")
        }
        func optimism(_ flag: Bool?) -> String? { flag.map { "optimism \($0 ? "on" : "off")" } }
        func timeout(_ seconds: Int?) -> String? { seconds.map { "timeout \($0) s" } }
        let all = [
            queries.map { name, value in
                let freshness = value.freshness.map { "freshness \($0) s" }
                return line(
                    "query",
                    name,
                    [freshness, timeout(value.timeout), optimism(value.optimism)]
                )
            },
            functions.map { line("function", $0, [timeout($1.timeout), optimism($1.optimism)]) },
            mutations.map { line("mutation", $0, [optimism($1.optimism)]) },
        ]
        return all.flatMap { $0.sorted() }
    }
}

/// Reads switches from JSON, member by member, and collects faults.
private struct SwitchReader {
    private(set) var faults: [String] = []
    private var count = 0

    mutating func read(_ json: JSONValue) -> Switches {
        var switches = Switches()
        guard case .object(let kinds) = json else {
            faults.append("Send an object with 'queries', 'functions' and 'mutations'.")
            return switches
        }
        for (kind, value) in kinds.sorted(by: { $0.key < $1.key }) {
            switch kind {
            case "queries":
                each(kind, value) { reader, path, members in
                    switches.queries[path.name] = Switches.Query(
                        freshness: reader.number(
                            "freshness",
                            0...WireLimits.switchedFreshness,
                            members,
                            path
                        ),
                        timeout: reader.number(
                            "timeout",
                            WireLimits.switchedQueryTimeout,
                            members,
                            path
                        ),
                        optimism: reader.flag("optimism", members, path)
                    )
                }
            case "functions":
                each(kind, value) { reader, path, members in
                    switches.functions[path.name] = Switches.Function(
                        timeout: reader.number(
                            "timeout",
                            WireLimits.switchedFunctionTimeout,
                            members,
                            path
                        ),
                        optimism: reader.flag("optimism", members, path)
                    )
                }
            case "mutations":
                each(kind, value) { reader, path, members in
                    switches.mutations[path.name] = Switches.Mutation(
                        optimism: reader.flag("optimism", members, path)
                    )
                }
            default: faults.append("Remove '\(kind.prefix(64))': there is no such kind of switch.")
            }
        }
        return switches
    }

    /// The place of a switch, for messages.
    private struct Path {
        let kind: String
        let name: String

        var text: String { "\(kind).\(name)" }
    }

    private static let members: [String: Set<String>] = [
        "queries": ["freshness", "timeout", "optimism"],
        "functions": ["timeout", "optimism"],
        "mutations": ["optimism"],
    ]

    /// The members of queries that do not take all of them: calls change the shown balance and
    /// quotas, and their switches are those of functions.
    private static let queryMembers: [String: Set<String>] = [
        "$balance": ["freshness"], "$quotas": ["freshness"],
    ]

    /// Returns the members that have an effect.
    private static func members(of path: Path) -> Set<String> {
        let own = path.kind == "queries" ? queryMembers[path.name] : nil
        return own ?? members[path.kind] ?? []
    }

    private mutating func each(
        _ kind: String,
        _ value: JSONValue,
        _ body: (inout SwitchReader, Path, [String: JSONValue]) -> Void
    ) {
        guard case .object(let names) = value else {
            return faults.append("Set '\(kind)' to an object whose members are names.")
        }
        for (name, value) in names.sorted(by: { $0.key < $1.key }) {
            guard name.isPlainText(of: WireLimits.switchNameCharacters) else {
                faults.append("Use names of 1 to 128 printable characters in '\(kind)'.")
                continue
            }
            let path = Path(kind: kind, name: name)
            guard case .object(let members) = value else {
                faults.append("Set '\(path.text)' to an object.")
                continue
            }
            count += 1
            guard count <= WireLimits.switches else {
                faults.append("Set at most \(WireLimits.switches) switches.")
                return
            }
            let known = Self.members(of: path)
            for member in members.keys.sorted() where !known.contains(member) {
                faults.append(
                    "Remove '\(member.prefix(64))' from '\(path.text)': it cannot be switched."
                )
            }
            body(&self, path, members.filter { known.contains($0.key) })
        }
    }

    private mutating func number(
        _ member: String,
        _ range: ClosedRange<Int>,
        _ members: [String: JSONValue],
        _ path: Path
    ) -> Int? {
        guard let value = members[member] else { return nil }
        guard let number = value.integer.flatMap(Int.init(exactly:)), range.contains(number) else {
            faults.append(
                """
                Set '\(path.text).\(member)' to whole seconds, \(range.lowerBound) to \
                \(range.upperBound).
                """
            )
            return nil
        }
        return number
    }

    private mutating func flag(
        _ member: String,
        _ members: [String: JSONValue],
        _ path: Path
    ) -> Bool? {
        guard let value = members[member] else { return nil }
        guard case .bool(let flag) = value else {
            faults.append("Set '\(path.text).\(member)' to true or false.")
            return nil
        }
        return flag
    }
}

/// The switches that a server sends, with their number.
package struct NumberedSwitches: Hashable, Sendable {
    /// The number of the configuration, which rises with each change; 0 for none.
    package var revision: Int64
    package var switches: Switches

    package init(revision: Int64 = 0, _ switches: Switches = Switches()) {
        (self.revision, self.switches) = (revision, switches)
    }

    /// Reads the value of a record in ``Switches/collection``.
    ///
    /// - Returns: `nil` for a value without a valid `revision`.
    package static func reading(
        _ value: JSONValue
    ) -> (numbered: NumberedSwitches, faults: [String])? {
        guard case .object(var members) = value,
            let revision = members.removeValue(forKey: "revision")?.integer, revision >= 0
        else { return nil }
        let (switches, faults) = Switches.reading(.object(members))
        return (NumberedSwitches(revision: revision, switches), faults)
    }

    /// The value of the record.
    package var json: JSONValue {
        guard case .object(var members) = switches.json else { return .null }
        members["revision"] = .integer(revision)
        return .object(members)
    }
}
