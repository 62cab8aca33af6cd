import Observation

/// The state that all models of one range of one query share.
///
/// It follows the cache until the last of these models is released.
@MainActor
@Observable
final class FollowedRange<Index: RangeIndex, Value: Codable & Sendable & Equatable> {
    let range: ClosedRange<Index>
    private(set) var state: RangeValues<Index, Value>
    /// Weak, because it holds the models.
    @ObservationIgnored private weak var models: ModelTable?
    @ObservationIgnored private let source: RangeSource<Index, Value>
    @ObservationIgnored private let mainActorBatch: MainActorBatch
    @ObservationIgnored private var watcher: UInt64?
    @ObservationIgnored private var following: ObservationToken?

    /// Returns the shared state of a range, and starts to follow it if no model does yet.
    static func shared(
        _ range: ClosedRange<Index>,
        of query: RangeQuery<Index, Value>,
        in client: SanguineClient
    ) -> FollowedRange {
        let key = QueryKey(
            name: "range",
            parameters: [query.key.text, range.lowerBound.position, range.upperBound.position]
        )
        return client.services.models.model(key) {
            FollowedRange(query, in: range, client: client)
        }
    }

    private init(
        _ query: RangeQuery<Index, Value>,
        in range: ClosedRange<Index>,
        client: SanguineClient
    ) {
        self.range = range
        source = client.queries.source(of: query)
        state = source.snapshot(range)
        models = client.services.models
        mainActorBatch = client.services.mainActorBatch
        let owner = mainActorBatch.newOwner()
        let watch = source.watch(
            range,
            tell: { [weak self, mainActorBatch] _ in
                mainActorBatch.schedule({ self?.applyNewest() }, for: owner)
            }
        )
        watcher = watch?.watcher
        following = watch.map { ObservationToken($0.end) }
        // Called again, because the watch has started to fetch missing values, which is visible to
        // a view.
        if let watch { state = source.snapshot(range, for: watch.watcher) }
    }

    deinit { mainActorBatch.keep(following) }

    // Applies the newest state instead of the one that was delivered, which may be outdated.
    func applyNewest() {
        let newest = watcher.map { source.snapshot(range, for: $0) } ?? source.snapshot(range)
        guard state != newest else { return }
        state = newest
        models?.startGrace(of: self)
    }
}

extension FollowedRange: FollowingModel {}
