public import Observation
public import SanguineModel

/// A quota's limit as an observable object for SwiftUI views: the rest, the time of the reset, and
/// what lifts the limit.
///
/// ```swift
/// struct ReadingsView: View {
///     @State var paywall: PaywallState  // client.paywall(for: "readings")
///
///     var body: some View {
///         if paywall.isExhausted, let reset = paywall.resetsAt {
///             Text("More readings in")
///             Text(timerInterval: Date.now...reset.date)
///         } else {
///             Text("\(paywall.remaining ?? 0) left")
///         }
///     }
/// }
/// ```
///
/// It changes at once when this or another device consumes units, when the plan changes, and by the
/// clock when the period ends, even without a network. A property changes only when its value does.
@MainActor
@Observable
public final class PaywallState {
    /// The quota's name in the server's configuration.
    public let name: String
    /// The amount that a period allows; `nil` until the quota is known.
    public private(set) var limit: Int64?
    /// The amount that is used; `nil` until the quota is known.
    public private(set) var used: Int64?
    /// The amount that is left; `nil` until the quota is known, and if the limit is lifted.
    public private(set) var remaining: Int64?
    /// The start of the next period; `nil` until the quota is known.
    ///
    /// At this moment of the device's clock, the quota counts as unused.
    public private(set) var resetsAt: Timestamp?
    /// The user's plan.
    public private(set) var plan = Account.Plan.free
    /// The plans that lift or raise the limit, as the server declares them; empty if it is lifted,
    /// or if no plan does.
    public private(set) var lifts: [Account.Plan] = [.premium]
    /// Whether the user's plan lifts the limit.
    public private(set) var isLifted = false

    /// Weak, because the client retains its models.
    @ObservationIgnored private weak var users: UserSwitcher?
    @ObservationIgnored private var followings: [ObservationToken] = []

    /// Whether no unit is left before ``resetsAt``, so that a paywall is to be shown.
    public var isExhausted: Bool { !isLifted && remaining == 0 }

    init(_ name: String, _ users: UserSwitcher) {
        self.name = name
        self.users = users
        let services = users.services
        let tell = services.mainActorBatch.scheduling { [weak self] in self?.applyNewest() }
        followings = [
            services.queries.follow(.quotas) { _ in tell() },
            services.queries.follow(.account) { _ in tell() },
        ]
        applyNewest()
    }

    func applyNewest() {
        guard let users else { return }
        let quota = Quotas(users: users)[name]
        let plan = UserAccount(users: users).current.plan
        let isLifted = Self.isLifted(quota, by: plan)
        var isOther = false
        func set<Value: Equatable>(
            _ place: ReferenceWritableKeyPath<PaywallState, Value>,
            _ value: Value
        ) {
            guard self[keyPath: place] != value else { return }
            self[keyPath: place] = value
            isOther = true
        }
        set(\.limit, quota?.limit)
        set(\.used, quota?.used)
        set(\.remaining, isLifted ? nil : quota?.remaining)
        set(\.resetsAt, quota?.resetsAt)
        set(\.plan, plan)
        set(\.isLifted, isLifted)
        let lifts = quota?.lifts.map { $0.compactMap { Account.Plan(rawValue: $0) } }
        set(\.lifts, isLifted ? [] : lifts ?? [.premium])
        if isOther { users.services.models.startGrace(of: self) }
    }

    /// Whether a plan lifts the limit of a quota that may have been received before the plan.
    private static func isLifted(_ quota: Quota?, by plan: Account.Plan) -> Bool {
        if quota?.unlimited == true { return true }
        return quota?.lifts?.contains(plan.rawValue) ?? (plan == .premium)
    }
}

extension PaywallState: FollowingModel {}
