import Foundation
import SanguineModel

extension SanguineClient {
    /// The zone in which the user's days begin and end, an IANA name: `Europe/Berlin`.
    ///
    /// What ``setTimeZone(_:)`` set last for this user, in this process or an earlier one;
    /// otherwise the configuration's, which is the device's when the client is created.
    public var timeZone: String { users.present.zone.current.identifier }

    /// Sets the zone in which the user's days begin and end, and keeps it until they sign out.
    ///
    /// If it is another day there, values that are fresh until midnight are stale at once, and
    /// those that are observed are fetched.
    ///
    /// The app decides: the client follows neither the device's zone nor the account's, because a
    /// daily page that changes while its reader flies is right for one app and wrong for another.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `invalid_content` if there is no zone of that
    ///   name; ``SanguineError/userChanged`` if the user is another one meanwhile. Nothing changes
    ///   then.
    public func setTimeZone(_ name: String) throws(SanguineError) {
        let user = users.present
        try user.zone.set(name)
        // Of two threads that do so neither leaves an old one.
        var zone: TimeZone
        repeat {
            zone = users.present.zone.current
            device.setZone(zone)
        } while zone != users.present.zone.current
    }
}
