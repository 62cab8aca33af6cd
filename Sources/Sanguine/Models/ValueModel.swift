import Foundation
public import Observation
public import SanguineModel

/// A query for a view: observable properties that follow the cache.
///
/// ```swift
/// struct BalanceView: View {
///     @State var balance: ValueModel<Balance>  // client.model(.balance)
///
///     var body: some View {
///         Text(balance.value.map { "\($0.available)" } ?? "…")
///             .refreshable { await balance.refresh() }
///     }
/// }
/// ```
///
/// What is cached is there when the model is created. A property changes only when its value does,
/// so that a view is drawn again only for what it shows, and all changes of one moment come in one
/// turn of the main actor. What `perform` changes on the main actor is in it when that returns.
/// Views of the same query share one model; it stops following when the last of them releases it.
@MainActor
@Observable
public final class ValueModel<Value: Codable & Sendable & Equatable> {
    /// What a view shows in place of, or beside, the value.
    public enum Phase: Sendable, Hashable {
        /// There is no value, and none is on its way.
        case empty
        /// There is no value yet; the first one is on its way.
        case loading
        /// There is a value.
        case ready
        /// There is a value, and a newer one is on its way.
        case refreshing
        /// There is no value; the fetch failed, see ``ValueModel/error``.
        case failed
    }

    /// The value, fresh or not; `nil` if there never was one.
    public private(set) var value: Value?
    /// What to show in place of, or beside, the value.
    public private(set) var phase = Phase.empty
    /// Why the last fetch failed; `nil` after one that succeeded.
    public private(set) var error: SanguineError?
    /// When the value arrived from its source.
    public private(set) var asOf: Timestamp?

    @ObservationIgnored private let queries: QueryCache
    /// Weak: it keeps models.
    @ObservationIgnored private weak var models: ModelTable?
    @ObservationIgnored private let turn: MainTurn
    @ObservationIgnored private let owner: UInt64
    @ObservationIgnored private var query: ValueQuery<Value>
    @ObservationIgnored private var following: ObservationToken?
    /// What the query is made of, if its id may be a temporary one.
    @ObservationIgnored private var id: FollowedID<ValueQuery<Value>>?
    /// Whether what is shown is still that of the id before.
    @ObservationIgnored private var isOfFormerID = false

    init(_ query: ValueQuery<Value>, on device: Device) {
        (queries, models) = (device.queries, device.models)
        self.query = query
        turn = device.turn
        owner = turn.newOwner()
        follow()
        apply(queries.snapshot(of: query))
    }

    deinit { turn.keep(following) }

    private func follow() {
        following = queries.follow(query) { [weak self, turn, owner] _ in
            turn.schedule({ self?.applyNewest() }, for: owner)
        }
    }

    /// Goes on with another query as soon as another id stands for the one that it has.
    func follow(_ id: FollowedID<ValueQuery<Value>>) {
        guard self.id == nil else { return }
        self.id = id
        applyNewest()
    }

    /// Fetches now, and returns when the fetch has ended.
    ///
    /// A failure is in ``error``.
    public func refresh() async {
        // Every reader learns of the failure through the state, this one included.
        _ = try? await queries.value(of: query, refreshing: true)
        applyNewest()
    }

    func userChanged() {
        isOfFormerID = false
        applyNewest()
    }

    // The newest state, and not the one that was told of: it may have been overtaken since.
    func applyNewest() {
        if let next = id?.next(), next.key != query.key {
            (query, isOfFormerID) = (next, true)
            models?.add(self, as: next.key)
            follow()
        }
        if apply(queries.snapshot(of: query)) { models?.changed(self) }
    }

    /// Returns whether the value is another one.
    @discardableResult
    private func apply(_ state: ValueSnapshot<Value>) -> Bool {
        var state = state
        if isOfFormerID, state.value == nil {
            (state.value, state.asOf) = (value, asOf)
        } else {
            isOfFormerID = false
        }
        let isOther = value != state.value
        if isOther { value = state.value }
        // Two equal errors may have come with different answers.
        if error != nil || state.error != nil { error = state.error }
        if asOf != state.asOf { asOf = state.asOf }
        let next = Phase(state)
        if phase != next { phase = next }
        return isOther
    }
}

extension ValueModel: FollowingModel {}

extension ValueModel.Phase {
    fileprivate init(_ state: ValueSnapshot<Value>) {
        self =
            switch (state.value != nil, state.isFetching) {
            case (true, true): .refreshing
            case (true, false): .ready
            case (false, true): .loading
            case (false, false): state.error == nil ? .empty : .failed
            }
    }
}
