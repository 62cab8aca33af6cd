import Foundation
import SanguineModel
import Synchronization

/// The zone of the user's days: the one the app last set, or the configuration's.
///
/// It is kept in the user's store and forgotten when they sign out.
///
/// Mutable state: `zone`, protected by its mutex, which is never held during disk access.
final class StoredZone: Sendable {
    static let stateName = "timeZone"

    private let zone: Mutex<TimeZone>
    private let store: ClientStore

    /// Restores the zone that was set in an earlier process.
    ///
    /// A name that this system does not know counts as never set.
    init(default fallback: TimeZone, store: ClientStore) {
        self.store = store
        let data = (try? store.state(Self.stateName)) ?? nil
        let stored = data.flatMap { Self.zone(String(decoding: $0, as: UTF8.self)) }
        zone = Mutex(stored ?? fallback)
    }

    /// The zone whose midnights end the user's days.
    var current: TimeZone { zone.withLock { $0 } }

    /// Sets and stores the zone.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `invalid_content` if there is no zone of that
    ///   name, ``SanguineError/userChanged`` if the user is gone; nothing changes then.
    func set(_ name: String) throws(SanguineError) {
        guard let zone = Self.zone(name) else { throw .problem(Self.unknownZone) }
        do throws(StoreError) {
            try store.setState(Self.stateName, Data(name.utf8))
        } catch {
            if error == .closed { throw .userChanged }
            // The store reports a failing disk; the zone applies in this process.
        }
        self.zone.withLock { $0 = zone }
    }

    private static let unknownZone = Problem(
        .invalidContent,
        "Set a time zone by its name in the IANA database, such as Europe/Berlin."
    )

    /// Returns the zone of that name in the IANA database; `nil` if there is none.
    static func zone(_ name: String) -> TimeZone? {
        ZoneName.isKnown(name) ? TimeZone(identifier: name) : nil
    }
}
