public import Observation
public import SanguineModel

/// The user's account as an observable object for SwiftUI views.
///
/// ```swift
/// struct SettingsView: View {
///     @State var account: AccountModel  // client.account.model
///
///     var body: some View {
///         Text(account.displayName ?? "Guest")
///         Button("German") { try? account.update { $0.language = "de" } }
///     }
/// }
/// ```
///
/// A property changes only when its value does. A change by ``update(_:)`` on the main actor is
/// visible when it returns; all others are applied once per turn of the main actor. After a
/// sign-out the model shows the next user.
@MainActor
@Observable
public final class AccountModel {
    static let key = QueryKey(name: "$account.model", parameters: [])

    /// The account's id; `nil` until it is known.
    public private(set) var id: Identifier?
    /// Whether the account is a guest's or registered.
    public private(set) var kind: Account.Kind
    /// The verified address, if there is one.
    public private(set) var email: String?
    /// The IANA name of the zone whose midnights end the user's days.
    public private(set) var timeZone: String
    /// The user's language as a BCP 47 tag.
    public private(set) var language: String
    /// The user's name for display, if there is one.
    public private(set) var displayName: String?
    /// The plan: free or premium.
    public private(set) var plan: Account.Plan
    /// The app's own settings.
    public private(set) var settings: AccountSettings

    /// Weak, because the client retains its models.
    @ObservationIgnored private weak var users: UserSwitcher?
    @ObservationIgnored private var followings: [ObservationToken] = []

    init(_ users: UserSwitcher) {
        let state = UserAccount(users: users).current
        (id, kind, email, timeZone) = (state.id, state.kind, state.email, state.timeZone)
        (language, displayName) = (state.language, state.displayName)
        (plan, settings) = (state.plan, state.settings)
        self.users = users
        let services = users.services
        let tell = services.mainActorBatch.scheduling { [weak self] in self?.applyNewest() }
        followings = [
            services.queries.follow(.account) { _ in tell() },
            services.outboxNotifier.follow(tell),
        ]
        applyNewest()
    }

    /// Changes the account; see ``UserAccount/update(_:)``.
    ///
    /// - Returns: A receipt for the change's outcome; `nil` if the body has changed nothing.
    /// - Throws: The errors of ``UserAccount/update(_:)``; ``SanguineError/closed``.
    @discardableResult
    public func update(
        _ body: (inout AccountDraft) throws(SanguineError) -> Void
    ) throws(SanguineError) -> Receipt? {
        guard let users else { throw .closed }
        return try UserAccount(users: users).update(body)
    }

    /// Changes the app's own settings by their declared type; see ``AppSettings``.
    ///
    /// - Returns: A receipt for the change's outcome; `nil` if the body has changed nothing.
    /// - Throws: The errors of ``update(_:)``.
    @discardableResult
    public func update<Settings: AppSettings>(
        _ type: Settings.Type,
        _ body: (inout Settings) -> Void
    ) throws(SanguineError) -> Receipt? {
        guard let users else { throw .closed }
        return try UserAccount(users: users).update(type, body)
    }

    func applyNewest() {
        guard let users else { return }
        let state = UserAccount(users: users).current
        var isOther = false
        func set<Value: Equatable>(
            _ property: ReferenceWritableKeyPath<AccountModel, Value>,
            _ value: Value
        ) {
            guard self[keyPath: property] != value else { return }
            self[keyPath: property] = value
            isOther = true
        }
        set(\.id, state.id)
        set(\.kind, state.kind)
        set(\.email, state.email)
        set(\.timeZone, state.timeZone)
        set(\.language, state.language)
        set(\.displayName, state.displayName)
        set(\.plan, state.plan)
        set(\.settings, state.settings)
        if isOther { users.services.models.startGrace(of: self) }
    }
}

extension AccountModel: FollowingModel {}
