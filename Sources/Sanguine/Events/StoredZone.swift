import Foundation
import SanguineModel
import Synchronization

/// The zone of the user's days: what the app set last, or else the configuration's.
///
/// Kept in the store as the user's: it is forgotten when they sign out.
///
/// Mutable state: `zone`, by its mutex, which is never held over the disk.
final class StoredZone: Sendable {
    static let stateName = "timeZone"

    private let zone: Mutex<TimeZone>
    private let fallback: TimeZone
    private let store: ClientStore

    /// Restores what was set in an earlier process.
    ///
    /// A name that this system does not know (any more) counts as never set, and in the
    /// configuration as GMT.
    init(default name: String, store: ClientStore) {
        self.store = store
        fallback = Self.zone(name) ?? .gmt
        let data = (try? store.state(Self.stateName)) ?? nil
        let stored = data.flatMap { Self.zone(String(decoding: $0, as: UTF8.self)) }
        zone = Mutex(stored ?? fallback)
    }

    /// The zone whose midnights end the user's days.
    var current: TimeZone { zone.withLock { $0 } }

    /// Sets and stores the zone; returns `nil`, and changes nothing, if there is none of that name.
    func set(_ name: String) -> TimeZone? {
        guard let zone = Self.zone(name) else { return nil }
        self.zone.withLock { $0 = zone }
        // A disk that fails is said in the store's report; the zone counts in this process.
        try? store.setState(Self.stateName, Data(name.utf8))
        return zone
    }

    /// Forgets what the user had set; the store has forgotten it already.
    func reset() -> TimeZone {
        zone.withLock { $0 = fallback }
        return fallback
    }

    private static func zone(_ name: String) -> TimeZone? {
        ZoneName.isKnown(name) ? TimeZone(identifier: name) : nil
    }
}
