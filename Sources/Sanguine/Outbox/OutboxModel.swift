public import Observation
public import SanguineModel

/// The outbox for a view: observable properties that follow what the user did.
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
/// It has the present user's operations, and goes on with the next one's after a sign-out. What is
/// performed on the main actor is in it when `perform` returns; all other changes of one moment
/// come in one turn. A property changes only when its value does. All views share one model.
@MainActor
@Observable
public final class OutboxModel {
    static let key = QueryKey(name: "$outbox", parameters: [])

    /// How many operations there are.
    public private(set) var summary = Outbox.Summary()
    /// Whether the backend has answered all that the user did: nothing waits or is on its way.
    ///
    /// What it has refused is answered, and in ``refused``.
    public private(set) var isAllSent = true

    /// Weak: the client keeps models.
    @ObservationIgnored private weak var users: Users?
    /// Read as soon as somebody asks for them: there may be thousands.
    @ObservationIgnored private var lists: Outbox.Listing?
    @ObservationIgnored private var following: ObservationToken?

    init(_ users: Users) {
        self.users = users
        let turn = users.device.turn
        let owner = turn.newOwner()
        following = users.device.outboxNews.follow { [weak self] in
            turn.schedule({ self?.applyNewest() }, for: owner)
        }
        applyNewest()
    }

    // MARK: - Operations

    /// The operations that are not settled, in the order in which they were made; see
    /// ``Outbox/pending``.
    public var pending: [Outbox.Operation] {
        access(keyPath: \.pending)
        return known.pending
    }

    /// The tray: what was refused, until it is retried or discarded.
    public var refused: [Outbox.Refused] {
        access(keyPath: \.refused)
        return known.refused
    }

    /// Of ``pending``, what waits to be sent and can be taken back.
    public var waiting: [Outbox.Operation] { pending.filter { $0.phase == .queued } }

    /// Of ``pending``, what is on its way, or whose answer was lost.
    public var sending: [Outbox.Operation] { pending.filter { $0.phase == .sending } }

    /// Of ``pending``, what the backend has done, and whose changes are still to come.
    public var settling: [Outbox.Operation] { pending.filter { $0.phase == .acknowledged } }

    // MARK: - What the user does about them

    /// Makes a refused operation anew, see ``Outbox/retry(_:)``.
    ///
    /// - Throws: ``SanguineError``: `not_found` if the tray has no such operation.
    @discardableResult
    public func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        try present().retry(id)
    }

    /// Drops an operation that was refused, or was never sent, see ``Outbox/discard(_:)``.
    ///
    /// - Throws: ``SanguineError``: `operation_in_progress` if it was sent and may be done,
    ///   `not_found` if there is no such operation.
    public func discard(_ id: Identifier) throws(SanguineError) { try present().discard(id) }

    /// Takes an operation back that has surely reached nobody, see ``Outbox/withdraw(_:)``.
    ///
    /// - Returns: Whether it was taken back.
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func withdraw(_ id: Identifier) throws(SanguineError) -> Bool {
        try present().withdraw(id)
    }

    // MARK: - Following

    func applyNewest() {
        let outbox = users.map(Outbox.init)
        guard let old = lists else { return show(outbox?.summary ?? Outbox.Summary()) }
        let new = outbox?.listing ?? Outbox.Listing()
        let isOther = (old.pending != new.pending, old.refused != new.refused)
        if isOther.0 { withMutation(keyPath: \.pending) { lists = new } }
        if isOther.1 { withMutation(keyPath: \.refused) { lists = new } }
        show(new.summary, besides: isOther.0 || isOther.1)
    }

    /// Shows how many there are.
    ///
    /// - Parameters:
    ///   - next: How many.
    ///   - hasChanged: Whether anything else has changed. Default: no.
    private func show(_ next: Outbox.Summary, besides hasChanged: Bool = false) {
        // By what is stored: who reads a list is not to follow these as well.
        guard hasChanged || _summary != next else { return }
        if _summary != next { summary = next }
        if _isAllSent != (next.unsent == 0) { isAllSent = next.unsent == 0 }
        users?.device.models.changed(self)
    }

    private var known: Outbox.Listing {
        if let lists { return lists }
        let first = users.map { Outbox(users: $0).listing } ?? Outbox.Listing()
        lists = first
        // It may be newer than the last turn, and all that is shown is of one moment.
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
    /// The outbox as an observable object for a view; the same one for all views.
    @MainActor
    public var model: OutboxModel {
        users.device.models.model(OutboxModel.key) { OutboxModel(users) }
    }
}
