import Foundation
import SanguineModel
import Synchronization

/// The zone of the user's days: what the app set last, or else the configuration's.
///
/// Kept in the store as the user's: it is forgotten when they sign out. What was set for a user who
/// has gone meanwhile is not taken, neither here nor by the store.
///
/// Mutable state: `guarded`, by its mutex, which is never held over the disk.
final class StoredZone: Sendable {
    static let stateName = "timeZone"

    private struct Guarded {
        var zone: TimeZone
        var epoch: UInt64
    }

    private let guarded: Mutex<Guarded>
    private let fallback: TimeZone
    private let store: ClientStore

    /// Restores what was set in an earlier process.
    ///
    /// A name that this system does not know (any more) counts as never set, and in the
    /// configuration as GMT.
    init(default name: String, store: ClientStore, epoch: SessionEpoch) {
        self.store = store
        fallback = Self.zone(name) ?? .gmt
        let data = (try? store.state(Self.stateName)) ?? nil
        let stored = data.flatMap { Self.zone(String(decoding: $0, as: UTF8.self)) }
        guarded = Mutex(Guarded(zone: stored ?? fallback, epoch: epoch.number))
    }

    /// The zone whose midnights end the user's days.
    var current: TimeZone { guarded.withLock { $0.zone } }

    /// Sets and stores the zone for the user of the epoch.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `invalid_content` if there is no zone of that
    ///   name, ``SanguineError/userChanged`` if the epoch is over; nothing changes then.
    func set(_ name: String, in epoch: SessionEpoch) throws(SanguineError) {
        guard let zone = Self.zone(name) else { throw .problem(Self.unknownZone) }
        let isTaken = guarded.withLock { guarded in
            guard epoch.number >= guarded.epoch else { return false }
            guarded.epoch = epoch.number
            guarded.zone = zone
            return true
        }
        guard isTaken else { throw .userChanged }
        // A disk that fails is said in the store's report; the zone counts in this process.
        try? store.setState(Self.stateName, Data(name.utf8), epoch: epoch.number)
    }

    /// Forgets what an earlier user had set.
    ///
    /// The store has forgotten it already, with the user.
    ///
    /// - Returns: Whether the epoch is a new one.
    func adopt(_ epoch: SessionEpoch) -> Bool {
        guarded.withLock { guarded in
            guard epoch.number > guarded.epoch else { return false }
            guarded.epoch = epoch.number
            guarded.zone = fallback
            return true
        }
    }

    private static let unknownZone = Problem(
        .invalidContent,
        "Set a time zone by its name in the IANA database, such as Europe/Berlin."
    )

    private static func zone(_ name: String) -> TimeZone? {
        ZoneName.isKnown(name) ? TimeZone(identifier: name) : nil
    }
}
