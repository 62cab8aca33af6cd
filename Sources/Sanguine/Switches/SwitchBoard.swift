import Foundation
import Logging
import SanguineModel
import Synchronization

/// The switches of the server that apply to this app, also after a restart without a network.
///
/// They arrive with the feed, are the same for all users of the device, and are stored with the
/// device's data. Names that this app does not have, and values that are not valid, have no effect;
/// they are counted, and named in one line of the log.
///
/// Several feeds may deliver them at the same moment, in any order: that of the former user, that
/// of the current one, a page and a live connection. The highest revision of an epoch wins.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during disk access or a
/// call of a handler. It may be taken under any other lock. `writing` orders the writes to disk.
final class SwitchBoard: Sendable {
    static let stateName = "switches"

    /// Reads ``current`` itself: a later change may have been made before it is called.
    typealias Handler = @Sendable () -> Void

    private struct Guarded {
        var numbered: NumberedSwitches
        /// Whether this process has received any; their revision may be one of another epoch.
        var isReceived = false
        /// The epoch of the revision; `nil` if the server did not name one.
        var epoch: Epoch?
        var store: ClientStore
        var handlers: [Handler] = []

        /// Whether a received revision is not older than the current one.
        func accepts(_ revision: Int64, isReset: Bool, of other: Epoch?) -> Bool {
            guard isReceived, revision < numbered.revision else { return true }
            guard let epoch, let other else { return isReset }
            return other != epoch
        }
    }

    private let guarded: Mutex<Guarded>
    private let writing = Mutex(())
    /// Returns the names that this app does not have.
    private let unknown: @Sendable (Switches) -> [String]
    private let metrics: ClientMetrics
    private let logger: Logger

    /// Restores the switches that an earlier process stored.
    ///
    /// - Parameters:
    ///   - store: The device's store.
    ///   - metrics: Counts what is ignored.
    ///   - logger: Receives a line about it.
    ///   - unknown: Returns the names that this app does not have.
    init(
        store: ClientStore,
        metrics: ClientMetrics,
        logger: Logger,
        unknown: @escaping @Sendable (Switches) -> [String]
    ) {
        let stored = (try? store.state(Self.stateName)).flatMap { Self.numbered($0) }
        guarded = Mutex(Guarded(numbered: stored ?? NumberedSwitches(), store: store))
        (self.metrics, self.logger, self.unknown) = (metrics, logger, unknown)
    }

    private static func numbered(_ data: Data) -> NumberedSwitches? {
        guard let json = try? JSONValue(stored: Array(data)) else { return nil }
        return NumberedSwitches.reading(json)?.numbered
    }

    /// The switches with their number.
    var current: NumberedSwitches { guarded.withLock { $0.numbered } }

    /// Calls the closure after each change.
    func onChange(_ handler: @escaping Handler) {
        guarded.withLock { $0.handlers.append(handler) }
    }

    /// Applies the switches from the feed, unless newer ones were received.
    ///
    /// - Parameters:
    ///   - value: The value of the record.
    ///   - isReset: Whether the feed has started over. Default: no.
    ///   - epoch: The epoch of the revision. Default: the server did not name one.
    func receive(_ value: JSONValue, isReset: Bool = false, of epoch: Epoch? = nil) {
        guard let (numbered, faults) = NumberedSwitches.reading(value) else {
            return ignored(["The configuration has no valid 'revision'."])
        }
        let change = guarded.withLock { guarded -> ([Handler], ClientStore)? in
            guard guarded.accepts(numbered.revision, isReset: isReset, of: epoch) else {
                return nil
            }
            (guarded.isReceived, guarded.epoch) = (true, epoch ?? guarded.epoch)
            guard guarded.numbered != numbered else { return nil }
            guarded.numbered = numbered
            return (guarded.handlers, guarded.store)
        }
        guard let (handlers, store) = change else { return }
        for handler in handlers { handler() }
        write(to: store)
        ignored(faults + unknown(numbered.switches).map { "'\($0)' is not known." })
    }

    /// Continues with another store, because the device's files were removed.
    func move(to store: ClientStore) {
        let revision = guarded.withLock { guarded in
            guarded.store = store
            return guarded.numbered.revision
        }
        if revision > 0 { write(to: store) }
    }

    /// Stores the current switches.
    private func write(to store: ClientStore) {
        do {
            try writing.withLock { _ in
                try store.setState(Self.stateName, try WireCoding.encode(current.json))
            }
        } catch StoreError.closed {
            return
        } catch {
            // They apply in this process; a later one receives them again.
            logger.error(
                "The server's configuration could not be stored.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    /// Counts and reports what has no effect.
    private func ignored(_ reasons: [String]) {
        guard !reasons.isEmpty else { return }
        metrics.countIgnoredSwitches(reasons.count)
        logger.warning(
            "Parts of the server's configuration are ignored.",
            metadata: [
                "count": "\(reasons.count)",
                "reasons": "\(reasons.prefix(5).joined(separator: " "))",
            ]
        )
    }
}

extension SwitchBoard {
    /// Returns the time limit of a query's requests; `nil` if it is as declared.
    func timeout(ofQuery name: String) -> Duration? {
        current.switches.queries[name]?.timeout.map { .seconds($0) }
    }

    /// Returns the time limit of a function's requests; `nil` if it is as declared.
    func timeout(ofFunction name: String) -> Duration? {
        current.switches.functions[name]?.timeout.map { .seconds($0) }
    }

    /// Whether the cost of a function's calls is shown only once it is known.
    func withholds(function name: String) -> Bool {
        current.switches.functions[name]?.optimism == false
    }
}

extension Switches {
    /// The freshness of a query; `nil` if it is as declared.
    func freshness(of query: String) -> Policy.Freshness? {
        queries[query]?.freshness.map { $0 == 0 ? .never : .duration(.seconds($0)) }
    }

    /// Whether the effect of a mutation on a query is shown only after its answer.
    func withholds(mutation: String, on query: String) -> Bool {
        mutations[mutation]?.optimism == false || queries[query]?.optimism == false
    }

    /// Whether an effect is shown only after the answer of its operation.
    func withholds(_ effect: Effect) -> Bool {
        withholds(mutation: effect.mutation, on: effect.query.name)
    }

    /// The mutations that are shown only after their answer.
    var withheldMutations: Set<String> {
        Set(mutations.filter { $0.value.optimism == false }.keys)
    }
}
