import SanguineModel
import Synchronization

/// The queries that a client knows: the declared ones and those that were used.
///
/// Bounded: names beyond the first thousand, and policies of one name beyond the fourth, are only
/// counted.
///
/// Mutable state: `seen`, protected by its mutex, which may be taken under the lock of ``Entries``.
final class QueryRegistry: Sendable {
    private struct Seen {
        var policies: [String: [Policy]] = [:]
        var leftOut = 0
    }

    private let declared: [QueryDeclaration]
    private let seen = Mutex(Seen())

    init(declared: [QueryDeclaration]) { self.declared = declared }

    /// Records that a query was used.
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

    /// Returns the matrix of all queries that are known so far.
    func matrix(_ switches: Switches = Switches()) -> StorageMatrix {
        let seen = seen.withLock { $0 }
        let found = seen.policies.flatMap { name, policies in
            policies.map { QueryDeclaration(name: name, policy: $0) }
        }
        return StorageMatrix(
            declared: declared,
            seen: found,
            leftOut: seen.leftOut,
            switches: switches
        )
    }
}

extension SanguineClient.Configuration {
    /// The app's queries and, with a Sanguine server, the client's own.
    var declaredQueries: [QueryDeclaration] {
        server == nil ? queries : queries + SanguineClient.builtInQueries
    }
}
