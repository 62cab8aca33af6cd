public import Observation
public import SanguineModel

/// The outbox as an observable object for SwiftUI views.
///
/// ```swift
/// struct SyncBadge: View {
///     @State var outbox: OutboxModel  // client.outbox.model
///
///     var body: some View {
///         Label(
///             outbox.isAllSent ? "All sent" : "\(outbox.waiting.count) waiting",
///             systemImage: outbox.refused.isEmpty ? "checkmark" : "exclamationmark.triangle"
///         )
///     }
/// }
/// ```
///
/// The model shows the current user's operations, and after a sign-out those of the next user. An
/// operation that is performed on the main actor is included when `perform` returns; all other
/// changes are applied once per turn of the main actor. A property changes only when its value
/// does. All views share one model.
@MainActor
@Observable
public final class OutboxModel {
    static let key = QueryKey(name: "$outbox", parameters: [])

    /// The numbers of operations, by state.
    public private(set) var summary = Outbox.Summary()
    /// Whether the backend has answered all operations: none is queued or being sent.
    ///
    /// Refused operations count as answered; they are in ``refused``.
    public private(set) var isAllSent = true

    /// Weak, because the client retains its models.
    @ObservationIgnored private weak var users: UserSwitcher?
    /// Read at the first access, because there may be thousands.
    @ObservationIgnored private var lists: Outbox.Listing?
    @ObservationIgnored private var following: ObservationToken?

    init(_ users: UserSwitcher) {
        self.users = users
        let services = users.services
        following = services.outboxNotifier.follow(
            services.mainActorBatch.scheduling { [weak self] in self?.applyNewest() }
        )
        applyNewest()
    }

    // MARK: - Operations

    /// The operations that are not settled, in the order in which they were created; see
    /// ``Outbox/pending``.
    public var pending: [Outbox.Operation] {
        access(keyPath: \.pending)
        return known.pending
    }

    /// The tray: refused operations, until they are retried or discarded.
    public var refused: [Outbox.Refused] {
        access(keyPath: \.refused)
        return known.refused
    }

    /// The operations in ``pending`` that are queued and can be withdrawn.
    public var waiting: [Outbox.Operation] { pending.filter { $0.phase == .queued } }

    /// The operations in ``pending`` that are being sent, or whose response was lost.
    public var sending: [Outbox.Operation] { pending.filter { $0.phase == .sending } }

    /// The operations in ``pending`` that the backend has applied and whose changes have not
    /// arrived yet.
    public var settling: [Outbox.Operation] { pending.filter { $0.phase == .acknowledged } }

    // MARK: - Actions

    /// Enqueues a refused operation again; see ``Outbox/retry(_:)``.
    ///
    /// - Throws: ``SanguineError``: `not_found` if the tray has no such operation.
    @discardableResult
    public func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        try present().retry(id)
    }

    /// Removes an operation that was refused or never sent; see ``Outbox/discard(_:)``.
    ///
    /// - Throws: ``SanguineError``: `operation_in_progress` if it was sent and may have been
    ///   applied, `not_found` if there is no such operation.
    public func discard(_ id: Identifier) throws(SanguineError) { try present().discard(id) }

    /// Withdraws an operation that has certainly not reached the backend; see
    /// ``Outbox/withdraw(_:)``.
    ///
    /// - Returns: Whether it was withdrawn.
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func withdraw(_ id: Identifier) throws(SanguineError) -> Bool {
        try present().withdraw(id)
    }

    // MARK: - Updates

    func applyNewest() {
        let outbox = users.map(Outbox.init)
        guard let old = lists else { return show(outbox?.summary ?? Outbox.Summary()) }
        let new = outbox?.listing ?? Outbox.Listing()
        let isOther = (old.pending != new.pending, old.refused != new.refused)
        if isOther.0 { withMutation(keyPath: \.pending) { lists = new } }
        if isOther.1 { withMutation(keyPath: \.refused) { lists = new } }
        show(new.summary, besides: isOther.0 || isOther.1)
    }

    /// Stores a new summary.
    ///
    /// - Parameters:
    ///   - next: The summary.
    ///   - hasChanged: Whether anything else has changed. Default: no.
    private func show(_ next: Outbox.Summary, besides hasChanged: Bool = false) {
        // Compares the stored properties: an access to a list must not track these as well.
        guard hasChanged || _summary != next else { return }
        if _summary != next { summary = next }
        if _isAllSent != (next.unsent == 0) { isAllSent = next.unsent == 0 }
        users?.services.models.startGrace(of: self)
    }

    private var known: Outbox.Listing {
        if let lists { return lists }
        let first = users.map { Outbox(users: $0).listing } ?? Outbox.Listing()
        lists = first
        // The listing may be newer than the last turn; all properties must show the same moment.
        show(first.summary)
        return first
    }

    private func present() throws(SanguineError) -> Outbox {
        guard let users else { throw .closed }
        return Outbox(users: users)
    }
}

extension OutboxModel: FollowingModel {}

extension Outbox {
    /// The outbox as an observable object for a view.
    ///
    /// All views share it.
    @MainActor
    public var model: OutboxModel {
        users.services.models.model(OutboxModel.key) { OutboxModel(users) }
    }
}
