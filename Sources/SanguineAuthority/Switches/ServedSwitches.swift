import SanguineModel
import Synchronization

/// The switches that all accounts receive, in memory, so that a read of a feed costs no lookup.
///
/// A feed has no number for them: they are the same in all feeds, and a change of them writes to
/// none. Instead each reader says which revision it has, and receives the current one, as the first
/// change of a page, if that differs.
///
/// Mutable state: the switches and the listeners, guarded by one mutex, which is never held during
/// a call of a listener.
package final class ServedSwitches: Sendable {
    /// Switches as they are sent.
    struct Served: Sendable {
        var revision: Int64 = 0
        /// The value of the record.
        var value: [UInt8] = []
        /// `false` while the storage cannot be read: apps keep the switches that they have.
        var isKnown = true
    }

    package typealias Listener = @Sendable () -> Void

    private struct Guarded {
        var served = Served()
        var listeners: [Listener] = []
    }

    /// The id of the record.
    static let id: RecordID = {
        guard let id = try? RecordID(derivedFrom: "current") else {
            preconditionFailure("A short name must result in an id.")
        }
        return id
    }()

    private let guarded = Mutex(Guarded())

    /// The current switches.
    var current: Served { guarded.withLock { $0.served } }

    /// The revision of the current switches; 0 if there were never any.
    package var revision: Int64 { current.revision }

    /// Whether the switches were read; see ``Authority/loadSwitches()``.
    package var isKnown: Bool { current.isKnown }

    /// Calls the closure after each change, on the task that made it.
    package func onChange(_ listener: @escaping Listener) {
        guarded.withLock { $0.listeners.append(listener) }
    }

    /// Serves switches, unless newer ones are served already.
    func serve(_ numbered: NumberedSwitches) {
        let served = Served(
            revision: numbered.revision,
            value: ResponseEncoder.encode(numbered.json)
        )
        replace(with: served) { $0.revision < served.revision }
    }

    /// Serves no switches until they are known.
    func forget() { guarded.withLock { $0.served.isKnown = false } }

    /// Serves what the storage contains, unless newer ones became known; `nil` for nothing.
    func begin(with numbered: NumberedSwitches?) {
        replace(with: Self.stored(numbered)) { !$0.isKnown }
    }

    /// Serves what the storage contains, which may be an older copy; `nil` for nothing.
    func restart(with numbered: NumberedSwitches?) {
        replace(with: Self.stored(numbered)) { _ in true }
    }

    private static func stored(_ numbered: NumberedSwitches?) -> Served {
        Served(
            revision: numbered?.revision ?? 0,
            value: numbered.map { ResponseEncoder.encode($0.json) } ?? []
        )
    }

    private func replace(with served: Served, if isWanted: (Served) -> Bool) {
        let listeners = guarded.withLock { guarded -> [Listener] in
            guard isWanted(guarded.served) else { return [] }
            guarded.served = served
            return guarded.listeners
        }
        for listener in listeners { listener() }
    }

    /// Returns the change for a reader of a feed; `nil` if it has the current switches.
    ///
    /// - Parameters:
    ///   - since: The number of the last change that the reader has, which is also the number of
    ///     this one: it takes no number of the feed, and does not move the reader.
    ///   - known: The revision that the reader has; `nil` if it does not say. Then only a read from
    ///     the start contains the switches.
    /// - Returns: The change.
    func change(since: Int64, known: Int64?) -> FeedPage.Entry? {
        let served = current
        guard served.isKnown else { return nil }
        let isOutdated = known.map { $0 != served.revision } ?? false
        // At the start, a known revision may be that of a lost history.
        guard isOutdated || since == 0 && served.revision > 0 else { return nil }
        let empty = NumberedSwitches()
        return FeedPage.Entry(
            system: Switches.collection,
            Self.id,
            seq: since,
            served.revision > 0 ? served.value : ResponseEncoder.encode(empty.json)
        )
    }
}
