import SanguineModel

extension StorageMatrix {
    /// Creates the matrix of the declarations of an app.
    ///
    /// - Parameters:
    ///   - declared: The declarations of queries, lists and ranges. A name may occur more than
    ///     once, see ``QueryDeclaration``.
    ///   - seen: The queries that were used. Default: none.
    ///   - functions: The rows of the functions. Default: none.
    ///   - collections: The collections of records. Default: none.
    ///   - others: Other rows, such as `config`. Default: none.
    ///   - leftOut: The number of uses that are missing. Default: 0.
    ///   - switches: The switches of the server, which replace parts of the declarations. Default:
    ///     none.
    public init(
        declared: [QueryDeclaration],
        seen: [QueryDeclaration] = [],
        functions: [Row] = [],
        collections: [RecordCollection] = [],
        others: [Row] = [],
        leftOut: Int = 0,
        switches: Switches = Switches()
    ) {
        var calls = Dictionary(functions.map { ($0.name, $0) }) { first, _ in first }
        let names = Dictionary(grouping: declared.uniqued + seen.uniqued, by: \.name)
        let declaredNames = Set(declared.map(\.name))
        var rows: [Row] = []
        for (name, group) in names {
            // Queries that are stored in the same way share a row, with several readers.
            var ways: [[QueryDeclaration]] = []
            for query in group.uniqued {
                let way = ways.firstIndex { $0[0].difference(from: query) == nil }
                guard let way else {
                    ways.append([query])
                    continue
                }
                // A declaration that names its function reads like the query that it declares.
                if !ways[way].contains(where: { $0.policy == query.policy }) {
                    ways[way].append(query)
                }
            }
            let standing: Row.Standing =
                ways.count > 1
                ? .conflict : declaredNames.contains(name) ? .declared : .undeclared
            let function = group.lazy.compactMap(\.function).first.flatMap { calls[$0] }
            for way in ways {
                var row = Row(way, standing, switches.queries[name], answeredBy: function)
                if let source = PublishedRecords.collection(of: way[0]) {
                    row.server = Server(ofPublished: source, in: collections)
                }
                rows.append(row)
            }
            if function?.name == name { calls[name] = nil }
        }
        rows += calls.values
        for index in rows.indices where rows[index].kind == .function {
            rows[index].mark(switches.functions[rows[index].name])
        }
        rows += collections.map { Row(collection: $0) } + others
        self.init(rows: rows, leftOut: leftOut, switches: switches)
    }
}

extension StorageMatrix.Row {
    /// Creates the row of queries that are stored in the same way.
    fileprivate init(
        _ queries: [QueryDeclaration],
        _ standing: Standing,
        _ switches: Switches.Query?,
        answeredBy function: StorageMatrix.Row?
    ) {
        let readers = queries.map { StorageMatrix.Reader($0.switched(by: switches)) }
        let policy = queries[0].policy
        var freshness: [String] = []
        for reader in readers where !freshness.contains(reader.fresh) {
            freshness.append(reader.fresh)
        }
        let name = queries[0].name
        let own = StorageMatrix.Server.builtIn[name]
        var client = StorageMatrix.Client(
            fresh: freshness.joined(separator: "; "),
            kept: policy.keep.inWords,
            tier: policy.tier.rawValue,
            audience: policy.audience.rawValue,
            history: name == "$balance" ? "last \(BalanceLimits.history)" : "none"
        )
        client.refetchedOn = policy.refetchEvents.names
        client.polled = policy.polling?.inWords
        client.tags = policy.tags
        client.dependencies = policy.dependencies
        client.version = policy.version
        self.init(
            name: name,
            kind: function?.name == name ? .function : queries[0].kind,
            standing: standing,
            server: own ?? function?.server ?? .backend,
            client: client,
            restored: .nextRead,
            readers: readers
        )
        if let history = function?.client.history { self.client.history = history }
        switched = Self.members(
            ("freshness", switches?.freshness != nil),
            ("timeout", switches?.timeout != nil),
            ("optimism", switches?.optimism != nil)
        )
    }

    /// Marks the members of a function that a switch replaces.
    fileprivate mutating func mark(_ switches: Switches.Function?) {
        let members = Self.members(
            ("timeout", switches?.timeout != nil),
            ("optimism", switches?.optimism != nil)
        )
        guard let members else { return }
        let known = switched ?? []
        switched = known + members.filter { !known.contains($0) }
    }

    private static func members(_ all: (String, isSwitched: Bool)...) -> [String]? {
        let members = all.filter(\.isSwitched).map(\.0)
        return members.isEmpty ? nil : members
    }
}

extension QueryDeclaration {
    /// The declaration with the parts that a switch replaces.
    fileprivate func switched(by switches: Switches.Query?) -> Self {
        var declaration = self
        if let seconds = switches?.freshness {
            declaration.policy.freshness = seconds == 0 ? .never : .duration(.seconds(seconds))
            declaration.policy.adaptive = nil
        }
        if let seconds = switches?.timeout { declaration.policy.timeout = .seconds(seconds) }
        return declaration
    }
}

extension StorageMatrix.Server {
    /// Creates the cells of records that the server selects.
    ///
    /// Only the server knows the readers of a collection that is not registered.
    fileprivate init(ofPublished name: String, in collections: [RecordCollection]) {
        let collection = collections.first { $0.name == name }
        self =
            collection.map { StorageMatrix.Row(collection: $0).server }
            ?? Self(cached: "database", audience: "readers", history: "records")
    }

    /// The storage of the client's own queries, of which the server has the values.
    fileprivate static let builtIn: [String: Self] = [
        "$balance": Self(cached: "database", audience: "account", history: "ledger"),
        "$quotas": Self(cached: "database", audience: "account"),
        "$account": Self(cached: "database", audience: "account"),
    ]
}

extension StorageMatrix.Reader {
    fileprivate init(_ query: QueryDeclaration) {
        let policy = query.policy
        var fresh = policy.freshness.inWords
        if let bounds = policy.adaptive {
            fresh = "\(bounds.lowerBound.inWords) to \(bounds.upperBound.inWords), adaptive"
        }
        self.init(
            fresh: fresh,
            timeout: policy.timeout.inWords,
            attempts: policy.retry.attempts,
            priority: "\(policy.priority)",
            place: query.place?.description
        )
    }
}

extension [QueryDeclaration] {
    /// The declarations without repetitions, in their order.
    fileprivate var uniqued: [QueryDeclaration] {
        var known: Set<QueryDeclaration> = []
        return filter { known.insert($0).inserted }
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
