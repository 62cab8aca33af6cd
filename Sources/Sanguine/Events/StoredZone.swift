import Foundation
import SanguineModel
import Synchronization

/// The zone of the user's days: what the app set last, or else the configuration's.
///
/// Kept in the store as the user's: it is forgotten when they sign out.
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

    /// Sets and stores the zone; returns `nil`, and changes nothing, if there is none of that name.
    func set(_ name: String) -> TimeZone? {
        guard let zone = Self.zone(name) else { return nil }
        guarded.withLock { $0.zone = zone }
        // A disk that fails is said in the store's report; the zone counts in this process.
        try? store.setState(Self.stateName, Data(name.utf8))
        return zone
    }

    /// Forgets what an earlier user had set, and returns what counts now; `nil` if nothing changes.
    ///
    /// The store has forgotten it already, with the user.
    func adopt(_ epoch: SessionEpoch) -> TimeZone? {
        guarded.withLock { guarded in
            guard epoch.number > guarded.epoch else { return nil }
            guarded.epoch = epoch.number
            guarded.zone = fallback
            return fallback
        }
    }

    private static func zone(_ name: String) -> TimeZone? {
        ZoneName.isKnown(name) ? TimeZone(identifier: name) : nil
    }
}
