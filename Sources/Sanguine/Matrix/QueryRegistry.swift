import SanguineModel
import Synchronization

/// The queries that a client knows: those declared to it, and those that it has seen.
///
/// Bounded: of names beyond the first thousand, and of policies of one name beyond the fourth, it
/// only counts that there were some.
///
/// Mutable state: `seen`, by its mutex. The lock of ``Entries`` may be held around it.
final class QueryRegistry: Sendable {
    private struct Seen {
        var policies: [String: [Policy]] = [:]
        var leftOut = 0
    }

    private let declared: [QueryDeclaration]
    private let seen = Mutex(Seen())

    init(declared: [QueryDeclaration]) { self.declared = declared }

    /// A query was used.
    ///
    /// Called once for each new entry of the cache.
    func saw(_ name: String, _ policy: Policy) {
        seen.withLock { seen in
            guard let known = seen.policies[name] else {
                if seen.policies.count < EventLimits.matrixNames {
                    seen.policies[name] = [policy]
                } else {
                    seen.leftOut += 1
                }
                return
            }
            guard !known.contains(policy) else { return }
            if known.count < EventLimits.matrixPolicies {
                seen.policies[name]?.append(policy)
            } else {
                seen.leftOut += 1
            }
        }
    }

    /// What is known by now.
    var matrix: StorageMatrix {
        let seen = seen.withLock { $0 }
        let found = seen.policies.flatMap { name, policies in
            policies.map { QueryDeclaration(name: name, policy: $0) }
        }
        return StorageMatrix(declared: declared, seen: found, leftOut: seen.leftOut)
    }
}

extension SanguineClient.Configuration {
    /// The app's queries and, with a Sanguine server, the client's own.
    var declaredQueries: [QueryDeclaration] {
        server == nil ? queries : queries + SanguineClient.builtInQueries
    }
}

extension SanguineClient {
    /// The queries that the client brings along for a Sanguine server.
    public static let builtInQueries: [QueryDeclaration] = [
        ValueQuery<Balance>.balance.declaration, ValueQuery<[Quota]>.quotas.declaration,
        ValueQuery<Account>.account.declaration,
    ]

    /// How each query of the app is kept: those declared in ``Configuration/queries``, the client's
    /// own, and all others that were used since the client was created.
    ///
    /// ```swift
    /// print(client.matrix())
    /// ```
    public func matrix() -> StorageMatrix { queries.entries.registry.matrix }
}
