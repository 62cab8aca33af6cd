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
/// A device may know a zone that the server does not know yet. Such a change is refused, and not
/// sent again by this process.
///
/// Mutable state: `state`, protected by its mutex, which is never held during disk access.
final class LocaleFollower: Sendable {
    static let stateName = "accountLocale"

    /// The account's zone and language when they were last received or sent.
    struct Known: Hashable, Codable, Sendable {
        var timeZone: String
        var language: String
    }

    private struct State {
        var known: Known?
        /// The values that the server has refused, by the names of the members.
        var refused: [String: JSONValue] = [:]
    }

    private let state: Mutex<State>
    private let store: ClientStore

    init(store: ClientStore) {
        self.store = store
        let known = (try? store.state(Self.stateName)).flatMap {
            try? WireCoding.decode(Known.self, from: $0)
        }
        state = Mutex(State(known: known))
    }

    /// Records the account that the server has sent with a session.
    func received(_ account: Account) {
        record(Known(timeZone: account.timeZone, language: account.language))
    }

    /// Records that the server has refused a change.
    func refused(_ patch: JSONValue) {
        guard case .object(let members) = patch else { return }
        state.withLock { $0.refused.merge(members) { $1 } }
    }

    /// Returns the changes that make the account match the device, and records them as made.
    ///
    /// Each is one member, so that a refused one does not prevent the other. There are none if the
    /// account's own settings are not known.
    ///
    /// - Parameters:
    ///   - timeZone: The device's zone; `nil` if the account does not follow it.
    ///   - language: The device's language; `nil` if the account does not follow it.
    ///   - account: The visible account, if it is cached.
    /// - Returns: Merge patches (RFC 7396).
    func changes(timeZone: String?, language: String?, from account: Account?) -> [JSONValue] {
        let cached = account.map { Known(timeZone: $0.timeZone, language: $0.language) }
        let (stored, refused) = state.withLock { ($0.known, $0.refused) }
        guard var known = cached ?? stored else { return [] }
        var patches: [JSONValue] = []
        if let timeZone, ZoneName.isKnown(timeZone), !Self.isSame(timeZone, known.timeZone),
            refused["timeZone"] != .string(timeZone)
        {
            patches.append(["timeZone": .string(timeZone)])
            known.timeZone = timeZone
        }
        if let language, language != known.language, refused["language"] != .string(language) {
            patches.append(["language": .string(language)])
            known.language = language
        }
        if !patches.isEmpty { record(known) }
        return patches
    }

    private func record(_ known: Known) {
        let isNew = state.withLock { state in
            defer { state.known = known }
            return state.known != known
        }
        guard isNew, let data = try? WireCoding.encode(known) else { return }
        // If this fails, the next process may send the same change again, which is harmless.
        try? store.setState(Self.stateName, data)
    }

    /// Whether two names identify the same zone: they are equal, or both are names of UTC, such as
    /// `UTC` and `Etc/UTC`.
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
        for patch in locale.changes(timeZone: timeZone, language: language, from: account) {
            do {
                _ = try mutations.perform(AccountUpdate(patch: patch, followsDevice: true))
            } catch {
                services.log.failure("\(error)", "The device's settings could not be sent.")
            }
        }
    }
}
