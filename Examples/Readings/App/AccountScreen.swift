public import Observation
public import Sanguine

/// The app's own settings in the account.
public struct ReadingSettings: AppSettings {
    public var hasOnboarded = false
    /// Whether the user wants a notification when the day's readings are available again.
    public var notifies = false

    public init() {}
}

/// The state of the app's settings and the actions of its switches.
///
/// Each change is visible when the action returns, even without a network, and on every device of
/// the user.
@MainActor
@Observable
public final class AccountScreen {
    private let client: SanguineClient
    private let account: AccountModel

    public init(_ client: SanguineClient) {
        (self.client, account) = (client, client.account.model)
    }

    // MARK: - State

    public var isGuest: Bool { account.kind == .guest }
    public var email: String? { account.email }
    public var plan: Account.Plan { account.plan }
    /// The zone whose midnights end the days of the quota.
    public var timeZone: String { account.timeZone }
    public var language: String { account.language }
    public var settings: ReadingSettings { account.settings.decoded() }

    // MARK: - Actions

    /// Sets the zone, or follows the device's again.
    public func setTimeZone(_ name: String?) throws {
        guard let name else { return try client.account.followDeviceTimeZone() }
        try account.update { $0.timeZone = name }
    }

    public func setLanguage(_ tag: String) throws { try account.update { $0.language = tag } }

    public func finishOnboarding() throws {
        try client.account.update(ReadingSettings.self) { $0.hasOnboarded = true }
    }

    public func setNotifications(_ areWanted: Bool) throws {
        try client.account.update(ReadingSettings.self) { $0.notifies = areWanted }
    }
}
