import Foundation
import SanguineModel
import Synchronization

/// The zone of the user's days: the one the app last set, or the configuration's.
///
/// It is kept in the user's store and forgotten when they sign out.
///
/// Mutable state: `state`, protected by its mutex, which is never held during disk access.
final class StoredZone: Sendable {
    static let stateName = "timeZone"

    private struct State {
        var zone: TimeZone
        /// Whether the app has set the zone.
        var isSet: Bool
    }

    private let state: Mutex<State>
    private let store: ClientStore

    /// Restores the zone that was set in an earlier process.
    ///
    /// A name that this system does not know counts as never set.
    init(default fallback: TimeZone, store: ClientStore) {
        self.store = store
        let data = (try? store.state(Self.stateName)) ?? nil
        let stored = data.flatMap { Self.zone(String(decoding: $0, as: UTF8.self)) }
        state = Mutex(State(zone: stored ?? fallback, isSet: stored != nil))
    }

    /// The zone whose midnights end the user's days.
    var current: TimeZone { state.withLock { $0.zone } }

    /// Whether the app has set the zone, so that it does not follow the device's.
    var isSet: Bool { state.withLock { $0.isSet } }

    /// Applies the device's zone unless the app has set one; returns whether the zone has changed.
    func follow(_ name: String) -> Bool {
        guard let zone = Self.zone(name) else { return false }
        return state.withLock { state in
            guard !state.isSet, state.zone != zone else { return false }
            state.zone = zone
            return true
        }
    }

    /// Forgets the zone that the app has set; it stays in use until another one is followed.
    ///
    /// - Throws: ``SanguineError/userChanged`` if the user is gone.
    func unset() throws(SanguineError) {
        do throws(StoreError) {
            try store.setStates([Self.stateName: nil])
        } catch {
            if error == .closed { throw .userChanged }
            // The store reports a failing disk; the change applies in this process.
        }
        state.withLock { $0.isSet = false }
    }

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
        state.withLock { $0 = State(zone: zone, isSet: true) }
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
