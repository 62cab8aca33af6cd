import Foundation
import SanguineModel

extension SanguineClient {
    /// The time zone of the user's days, an IANA name: `Europe/Berlin`.
    ///
    /// The zone that ``setTimeZone(_:)`` last set for this user, in this process or an earlier one;
    /// otherwise the device's, or that of ``Configuration/timeZone`` if it was set.
    public var timeZone: String { users.current.zone.current.identifier }

    /// Sets the time zone of the user's days, and keeps it until they sign out.
    ///
    /// If it is another day there, values that are fresh until midnight become stale at once, and
    /// observed ones are fetched.
    ///
    /// The days no longer follow the device's zone then, until
    /// ``UserAccount/followDeviceTimeZone()`` is called. The account's zone, in which the server
    /// counts days, is not changed: use ``UserAccount/update(_:)`` for both.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `invalid_content` if there is no zone of that
    ///   name; ``SanguineError/userChanged`` if the user has changed in the meantime. Nothing
    ///   changes then.
    public func setTimeZone(_ name: String) throws(SanguineError) {
        let user = users.current
        try user.zone.set(name)
        // If two threads set a zone at once, neither leaves an old one.
        var zone: TimeZone
        repeat {
            zone = users.current.zone.current
            services.setZone(zone)
        } while zone != users.current.zone.current
    }
}
