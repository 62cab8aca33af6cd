import SanguineModel
import Synchronization

/// The queries and functions that a client knows: the declared ones and those that were used.
///
/// Bounded: names beyond the first thousand, and policies of one name beyond the fourth, are only
/// counted.
///
/// Mutable state: `seen`, protected by its mutex, which may be taken under the lock of ``Entries``.
final class QueryRegistry: Sendable {
    private struct Seen {
        var queries: [String: [QueryDeclaration]] = [:]
        var functions: [String: FunctionRules] = [:]
        var leftOut = 0
    }

    private let declared: [QueryDeclaration]
    private let functions: [any FunctionCall.Type]
    private let collections: [RecordCollection]
    private let others: [StorageMatrix.Row]
    private let seen = Mutex(Seen())

    /// Creates the registry of a client's declarations.
    convenience init(_ configuration: SanguineClient.Configuration) {
        self.init(
            declared: configuration.declaredQueries,
            functions: configuration.functions,
            collections: configuration.server == nil ? [] : configuration.schema.allCollections,
            others: configuration.server == nil ? [] : [.config]
        )
    }

    init(
        declared: [QueryDeclaration],
        functions: [any FunctionCall.Type] = [],
        collections: [RecordCollection] = [],
        others: [StorageMatrix.Row] = []
    ) {
        (self.declared, self.functions) = (declared, functions)
        (self.collections, self.others) = (collections, others)
    }

    /// Records that a query was used.
    ///
    /// Called once for each new entry of the cache, and when another declaration uses it.
    func saw(_ query: QueryDeclaration) {
        seen.withLock { seen in
            guard let known = seen.queries[query.name] else {
                if seen.queries.count < EventLimits.matrixNames {
                    seen.queries[query.name] = [query]
                } else {
                    seen.leftOut += 1
                }
                return
            }
            guard !known.contains(query) else { return }
            if known.count < EventLimits.matrixPolicies {
                seen.queries[query.name]?.append(query)
            } else {
                seen.leftOut += 1
            }
        }
    }

    /// Records that a function was called.
    func saw<Call: FunctionCall>(_: Call.Type) {
        seen.withLock { seen in
            guard seen.functions[Call.name] == nil else { return }
            if seen.functions.count < EventLimits.matrixNames {
                seen.functions[Call.name] = Call.rules
            } else {
                seen.leftOut += 1
            }
        }
    }

    /// Returns the matrix of everything that is known so far.
    func matrix(_ switches: Switches = Switches()) -> StorageMatrix {
        let seen = seen.withLock { $0 }
        let names = Set(functions.map { $0.name })
        var rows = functions.map { StorageMatrix.Row(function: $0.name, rules: $0.rules) }
        for (name, rules) in seen.functions where !names.contains(name) {
            rows.append(StorageMatrix.Row(function: name, rules: rules, standing: .undeclared))
        }
        return StorageMatrix(
            declared: declared,
            seen: seen.queries.values.flatMap(\.self),
            functions: rows,
            collections: collections,
            others: others,
            leftOut: seen.leftOut,
            switches: switches
        )
    }

    /// The number of names that several declarations store in different ways.
    var conflicts: Int {
        Set(matrix().rows.filter { $0.standing == .conflict }.map(\.name)).count
    }
}

extension SanguineClient.Configuration {
    /// The app's queries and, with a Sanguine server, the client's own.
    var declaredQueries: [QueryDeclaration] {
        server == nil ? queries : queries + SanguineClient.builtInQueries
    }
}
