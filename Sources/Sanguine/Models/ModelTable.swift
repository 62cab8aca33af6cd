/// A model that can take over what is known at any time.
@MainActor
protocol FollowingModel: AnyObject {
    func applyNewest()
}

/// The models that are in use, so that all views of one query share one.
@MainActor
final class ModelTable {
    private struct Entry {
        weak var model: AnyObject?
    }

    private var entries: [QueryKey: Entry] = [:]
    private var sweepAt = 64

    nonisolated init() {}

    /// Has the models of those keys take over what is known now.
    func applyNewest(_ keys: [QueryKey]) {
        for key in keys { (entries[key]?.model as? any FollowingModel)?.applyNewest() }
    }

    /// The model in use of that key and type, or a new one.
    func model<Model: AnyObject>(_ key: QueryKey, _ make: () -> Model) -> Model {
        if let model = entries[key]?.model as? Model { return model }
        let model = make()
        entries[key] = Entry(model: model)
        if entries.count > sweepAt {
            entries = entries.filter { $0.value.model != nil }
            sweepAt = max(64, entries.count * 2)  // Swept once for each doubling.
        }
        return model
    }
}
