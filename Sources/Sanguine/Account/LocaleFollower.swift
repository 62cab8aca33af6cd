import Foundation
import Logging
import SanguineModel
import Synchronization

/// Makes the account follow the device's zone and language, if the configuration allows it.
///
/// The outbox sends a change once, when the device differs from the account: at the start, when the
/// app returns to the foreground, and when the device's setting changes. The device does not
/// respond to changes by the user's other devices. Otherwise two devices in two zones would
/// overwrite each other's zone forever; instead, the device that was last in the foreground wins.
///
/// Mutable state: `known`, protected by its mutex, which is never held during disk access.
final class LocaleFollower: Sendable {
    static let stateName = "accountLocale"

    /// The account's zone and language when they were last received or sent.
    struct Known: Hashable, Codable, Sendable {
        var timeZone: String
        var language: String
    }

    private let known: Mutex<Known?>
    private let store: ClientStore

    init(store: ClientStore) {
        self.store = store
        known = Mutex(
            (try? store.state(Self.stateName)).flatMap {
                try? WireCoding.decode(Known.self, from: $0)
            }
        )
    }

    /// Records the account as the server has sent it with a session.
    func received(_ account: Account) {
        record(Known(timeZone: account.timeZone, language: account.language))
    }

    /// Returns the change that makes the account agree with the device, and counts it as made;
    /// `nil` if there is none, or if the account's own settings are not known.
    ///
    /// - Parameters:
    ///   - timeZone: The device's zone; `nil` if the account does not follow it.
    ///   - language: The device's language; `nil` if the account does not follow it.
    ///   - account: The visible account, if it is cached.
    /// - Returns: A merge patch (RFC 7396).
    func change(timeZone: String?, language: String?, from account: Account?) -> JSONValue? {
        let cached = account.map { Known(timeZone: $0.timeZone, language: $0.language) }
        guard var state = cached ?? known.withLock({ $0 }) else { return nil }
        var patch: [String: JSONValue] = [:]
        if let timeZone, ZoneName.isKnown(timeZone), !Self.isSame(timeZone, state.timeZone) {
            patch["timeZone"] = .string(timeZone)
            state.timeZone = timeZone
        }
        if let language, language != state.language {
            patch["language"] = .string(language)
            state.language = language
        }
        guard !patch.isEmpty else { return nil }
        record(state)
        return .object(patch)
    }

    private func record(_ state: Known) {
        let isNew = known.withLock { known in
            defer { known = state }
            return known != state
        }
        guard isNew, let data = try? WireCoding.encode(state) else { return }
        // Without it, the same change may be sent again by the next process, which does no harm.
        try? store.setState(Self.stateName, data)
    }

    /// Whether two names stand for one zone: they are equal, or both have one constant offset, as
    /// `UTC` and `Etc/UTC` do.
    static func isSame(_ name: String, _ other: String) -> Bool {
        guard name != other else { return true }
        guard let zone = TimeZone(identifier: name), let second = TimeZone(identifier: other),
            isUniversal(zone), isUniversal(second)
        else { return false }
        return true
    }

    private static func isUniversal(_ zone: TimeZone) -> Bool {
        zone.secondsFromGMT() == 0 && zone.nextDaylightSavingTimeTransition == nil
            && ["GMT", "UTC", "UCT", "Zulu", "Universal", "Greenwich"].contains {
                zone.identifier.hasSuffix($0)
            }
    }
}

extension UserScope {
    /// Applies the device's zone, and sends the device's zone and language if the account differs.
    func followDevice() {
        let configuration = services.configuration
        let device = configuration.deviceLocale
        var timeZone: String?
        if configuration.followsDeviceTimeZone, !zone.isSet {
            timeZone = device.timeZone.value
            if zone.follow(device.timeZone.value) { services.setZone(zone.current) }
        }
        let language = configuration.followsDeviceLanguage ? device.language.value : nil
        guard configuration.server != nil, authorizer.account != nil,
            timeZone != nil || language != nil
        else { return }
        let account = services.queries.snapshot(of: .account).value
        let patch = locale.change(timeZone: timeZone, language: language, from: account)
        guard let patch else { return }
        do {
            _ = try mutations.perform(AccountUpdate(patch: patch))
        } catch {
            services.log.failure("\(error)", "The device's time zone could not be sent.")
        }
    }
}
