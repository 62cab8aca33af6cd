import Foundation

/// The time zone and the language of the device, which the account follows.
///
/// The zone changes when the system announces it, and when it is read again as the app returns to
/// the foreground: a process that was suspended in the meantime gets no announcement.
final class DeviceLocale: Sendable {
    /// The device's zone, an IANA name.
    let timeZone: Signal<String>
    /// The device's language, a BCP 47 tag.
    let language: Signal<String>
    private let read: @Sendable () -> (timeZone: String, language: String)
    private let observation: ZoneObservation?

    // Immutable; a notification center may be used from any thread.
    private final class ZoneObservation: @unchecked Sendable {
        let token: any NSObjectProtocol

        init(_ token: any NSObjectProtocol) { self.token = token }

        deinit { NotificationCenter.default.removeObserver(token) }
    }

    /// Creates a locale that changes when a test sets its signals.
    init(timeZone: String, language: String = "en") {
        let (zone, tag) = (Signal(timeZone), Signal(language))
        (self.timeZone, self.language, observation) = (zone, tag, nil)
        read = { (zone.value, tag.value) }
    }

    private init() {
        let read: @Sendable () -> (timeZone: String, language: String) = {
            // The system's zone is cached by each process.
            NSTimeZone.resetSystemTimeZone()
            return (TimeZone.current.identifier, Locale.current.identifier(.bcp47))
        }
        let first = read()
        let (zone, tag) = (Signal(first.timeZone), Signal(first.language))
        (timeZone, language, self.read) = (zone, tag, read)
        observation = ZoneObservation(
            NotificationCenter.default.addObserver(
                forName: .NSSystemTimeZoneDidChange,
                object: nil,
                queue: nil
            ) { _ in zone.set(read().timeZone) }
        )
    }

    /// The locale of this device.
    static let current = DeviceLocale()

    /// Reads the device's settings again.
    func refresh() {
        let now = read()
        timeZone.set(now.timeZone)
        language.set(now.language)
    }
}
