public import SanguineModel

/// The user's account as the app shows it: the server's state with this device's changes applied.
///
/// Before the account is known, for example at a first launch without a network, it has the
/// device's zone and language and the changes that the app has made so far.
public struct AccountState: Hashable, Sendable {
    /// The account's id; `nil` until it is known.
    public internal(set) var id: Identifier?
    /// Whether the account is a guest's or registered.
    public internal(set) var kind: Account.Kind
    /// The verified address, if there is one.
    public internal(set) var email: String?
    /// The IANA name of the zone whose midnights end the user's days.
    public internal(set) var timeZone: String
    /// The user's language as a BCP 47 tag.
    public internal(set) var language: String
    /// The user's name for display, if there is one.
    public internal(set) var displayName: String?
    /// The plan: free or premium.
    public internal(set) var plan: Account.Plan
    /// The app's own settings.
    public internal(set) var settings: AccountSettings
    /// The time at which the account was created; `nil` until it is known.
    public internal(set) var createdAt: Timestamp?

    /// Whether the server's state is known.
    public var isKnown: Bool { id != nil }

    init(_ account: Account) {
        id = account.id
        kind = account.kind
        email = account.email
        timeZone = account.timeZone
        language = account.language
        displayName = account.displayName
        plan = account.plan
        settings = AccountSettings(account.settings)
        createdAt = account.createdAt
    }

    /// Creates the state of an account that is not known yet.
    init(timeZone: String, language: String) {
        kind = .guest
        (self.timeZone, self.language) = (timeZone, language)
        plan = .free
        settings = AccountSettings()
    }

    /// Applies a merge patch (RFC 7396) with members that the user may change.
    mutating func apply(_ patch: JSONValue) {
        if let zone = patch["timeZone"]?.string { timeZone = zone }
        if let tag = patch["language"]?.string { language = tag }
        if let name = patch["displayName"] { displayName = name.string }
        if let change = patch["settings"], let merged = try? settings.json.merging(change) {
            settings = AccountSettings(merged)
        }
    }
}

/// The members of an account that the app may change.
public struct AccountDraft: Hashable, Sendable {
    /// The IANA name of the zone whose midnights end the user's days.
    ///
    /// A change also ends the following of the device's zone on this device, see
    /// ``UserAccount/followDeviceTimeZone()``.
    public var timeZone: String
    /// The user's language as a BCP 47 tag.
    public var language: String
    /// The user's name for display, 1 to 100 printable characters; `nil` for none.
    public var displayName: String?
    /// The app's own settings.
    public var settings: AccountSettings

    init(_ account: AccountState) {
        timeZone = account.timeZone
        language = account.language
        displayName = account.displayName
        settings = account.settings
    }

    /// Returns the merge patch (RFC 7396) that turns another draft into this one; `nil` if they
    /// are equal.
    func patch(from former: AccountDraft) -> JSONValue? { former.json.mergePatch(to: json) }

    private var json: JSONValue {
        var members: [String: JSONValue] = [
            "timeZone": .string(timeZone), "language": .string(language),
            "settings": settings.json,
        ]
        if let displayName { members["displayName"] = .string(displayName) }
        return .object(members)
    }

    /// Refuses values that the server would refuse, where the rule is known here.
    func check() throws(SanguineError) {
        guard ZoneName.isKnown(timeZone) else {
            throw .problem(
                Problem(
                    .invalidContent,
                    "Set a time zone by its name in the IANA database, such as Europe/Berlin."
                )
            )
        }
        guard settings.json.encoded.count <= WireLimits.settingsBytes else {
            throw .problem(
                Problem(
                    .invalidContent,
                    """
                    Store at most \(WireLimits.settingsBytes) bytes of settings as JSON, and \
                    larger data in records.
                    """
                )
            )
        }
    }
}
