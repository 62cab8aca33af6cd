import Foundation
public import Observation
public import SanguineModel

/// A query as an observable object for SwiftUI views.
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
/// The cached value is available when the model is created. A property changes only when its value
/// does, so that a view is redrawn only for what it shows, and all changes are applied once per
/// turn of the main actor. The effects of `perform` on the main actor are visible when it returns.
/// Views of the same query share one model; it stops following when the last of them releases it.
@MainActor
@Observable
public final class ValueModel<Value: Codable & Sendable & Equatable> {
    /// The content that a view shows instead of, or in addition to, the value.
    public enum Phase: Sendable, Hashable {
        /// There is no value, and none is being fetched.
        case empty
        /// There is no value yet; the first one is being fetched.
        case loading
        /// There is a value.
        case ready
        /// There is a value, and a newer one is being fetched.
        case refreshing
        /// There is no value, because the fetch failed; see ``ValueModel/error``.
        case failed
    }

    /// The value, fresh or stale; `nil` if there never was one.
    public private(set) var value: Value?
    /// The content to show instead of, or in addition to, the value.
    public private(set) var phase = Phase.empty
    /// The error of the last fetch; `nil` if it succeeded.
    public private(set) var error: SanguineError?
    /// The time at which the value arrived from its source.
    public private(set) var asOf: Timestamp?

    @ObservationIgnored private let queries: QueryCache
    /// Weak, because the table retains its models.
    @ObservationIgnored private weak var models: ModelTable?
    @ObservationIgnored private let mainActorBatch: MainActorBatch
    @ObservationIgnored private let owner: UInt64
    @ObservationIgnored private var query: ValueQuery<Value>
    @ObservationIgnored private var following: ObservationToken?
    /// The followed id, if the query depends on one that may be temporary.
    @ObservationIgnored private var id: FollowedID<ValueQuery<Value>>?
    /// Whether the value is still that of the former id.
    @ObservationIgnored private var isOfFormerID = false

    init(_ query: ValueQuery<Value>, on services: ClientServices) {
        (queries, models) = (services.queries, services.models)
        self.query = query
        mainActorBatch = services.mainActorBatch
        owner = mainActorBatch.newOwner()
        follow()
        apply(queries.snapshot(of: query))
    }

    deinit { mainActorBatch.keep(following) }

    private func follow() {
        following = queries.follow(query) { [weak self, mainActorBatch, owner] _ in
            mainActorBatch.schedule({ self?.applyNewest() }, for: owner)
        }
    }

    /// Switches to another query when the temporary id that the query depends on is replaced.
    func follow(_ id: FollowedID<ValueQuery<Value>>) {
        guard self.id == nil else { return }
        self.id = id
        applyNewest()
    }

    /// Fetches the value and returns when the fetch has ended.
    ///
    /// An error is stored in ``error``.
    public func refresh() async {
        // All observers get the error through the state, including this caller.
        _ = try? await queries.value(of: query, refreshing: true)
        applyNewest()
    }

    func userChanged() {
        isOfFormerID = false
        applyNewest()
    }

    // Reads the current state and not the notified one, which may be outdated.
    func applyNewest() {
        if let next = id?.next(), next.key != query.key {
            (query, isOfFormerID) = (next, true)
            models?.add(self, as: next.key)
            follow()
        }
        if apply(queries.snapshot(of: query)) { models?.startGrace(of: self) }
    }

    /// Returns whether the value has changed.
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
        // Two equal errors may come from different responses.
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
