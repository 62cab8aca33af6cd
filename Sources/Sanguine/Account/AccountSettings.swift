public import SanguineModel

/// The app's own settings in the account: the same on all of the user's devices.
///
/// ```swift
/// try client.account.update { $0.settings["onboarding"] = true }
/// ```
///
/// At most 4 KiB as JSON, see `WireLimits.settingsBytes`. For settings with a declared type, see
/// ``AppSettings``.
public struct AccountSettings: Hashable, Sendable {
    /// The settings as a JSON object.
    public private(set) var json: JSONValue

    /// Creates settings from a JSON object; any other value counts as an empty object.
    public init(_ json: JSONValue = [:]) {
        if case .object = json { self.json = json } else { self.json = [:] }
    }

    /// The member with the name; set it to `nil` to remove it.
    ///
    /// A member cannot be JSON's `null`, which stands for a removed member on the wire.
    public subscript(name: String) -> JSONValue? {
        get { json[name] }
        set {
            guard case .object(var members) = json else { return }
            members[name] = newValue == .null ? nil : newValue
            json = .object(members)
        }
    }

    /// Returns the settings as the app's own type; a member that is missing, or that this version
    /// of the app cannot decode, has its default.
    public func decoded<Settings: AppSettings>(as type: Settings.Type = Settings.self) -> Settings {
        guard let defaults = try? JSONValue(encoding: Settings()),
            case .object(var members) = defaults, case .object(let stored) = json
        else { return Settings() }
        func decode() -> Settings? { try? JSONValue.object(members).decoded(as: Settings.self) }
        members.merge(stored) { $1 }
        if let settings = decode() { return settings }
        guard case .object(let own) = defaults else { return Settings() }
        members = own
        for (name, value) in stored {
            let former = members[name]
            members[name] = value
            if decode() == nil { members[name] = former }
        }
        return decode() ?? Settings()
    }

    /// Changes the members that differ between two values of the app's own type.
    ///
    /// Members that the type does not declare, such as those of a newer version of the app, stay.
    mutating func change<Settings: AppSettings>(_ body: (inout Settings) throws -> Void) rethrows {
        let before = decoded(as: Settings.self)
        var after = before
        try body(&after)
        guard let old = try? JSONValue(encoding: before), let new = try? JSONValue(encoding: after),
            let patch = old.mergePatch(to: new), let merged = try? json.merging(patch)
        else { return }
        json = merged
    }
}

/// The app's own settings with a declared type, stored in the account.
///
/// ```swift
/// struct ReadingSettings: AppSettings {
///     var hasOnboarded = false
///     var remindsDaily = true
/// }
///
/// let settings = client.account.current.settings.decoded(as: ReadingSettings.self)
/// try client.account.update(ReadingSettings.self) { $0.hasOnboarded = true }
/// ```
///
/// Only the members that a change touches are sent, so two devices that change different members
/// keep both. A member that is missing in the account has the default of ``init()``, even in a
/// newer version of the app that adds it.
public protocol AppSettings: Codable, Equatable, Sendable {
    /// Creates the settings of a new user.
    init()
}

extension JSONValue {
    /// Returns the merge patch (RFC 7396) that turns this value into another one; `nil` if the two
    /// are equal.
    func mergePatch(to other: JSONValue) -> JSONValue? {
        guard self != other else { return nil }
        guard case .object(let old) = self, case .object(let new) = other else { return other }
        var changes: [String: JSONValue] = [:]
        for name in old.keys where new[name] == nil { changes[name] = .null }
        for (name, value) in new {
            guard let former = old[name] else {
                changes[name] = value
                continue
            }
            if let change = former.mergePatch(to: value) { changes[name] = change }
        }
        return .object(changes)
    }

    /// Whether this merge patch sets every member that another one sets, at any depth, so that the
    /// other has no effect before this one.
    func covers(_ other: JSONValue) -> Bool {
        guard case .object(let earlier) = other else { return true }
        guard case .object(let own) = self else { return true }
        return earlier.allSatisfy { name, value in own[name]?.covers(value) ?? false }
    }
}
