import OrderedCollections

/// A model that can be updated to the current state at any time.
@MainActor
protocol FollowingModel: AnyObject {
    func applyNewest()

    /// Removes values of the user who has left, and applies the current state.
    func userChanged()
}

extension FollowingModel {
    func userChanged() { applyNewest() }
}

/// The models in use, so that all views of a query share one.
///
/// A view may get a model in its `body`, read it and release it in the same turn, but still follow
/// it. The table cannot detect this, so it retains such models. When the value of one changes, a
/// view that still exists is redrawn and requests the model again. Without a request within
/// ``ClientLimits/unheldModelGrace``, the model is released. At most ``ClientLimits/unheldModels``
/// are retained. A model with another owner ends with its last owner.
@MainActor
final class ModelTable {
    private struct Entry {
        weak var model: AnyObject?
    }

    /// A model that only the table retains.
    private struct Kept {
        var model: AnyObject
        /// Releases the model after the grace period.
        var end: Task<Void, Never>?
    }

    private var entries: [QueryKey: Entry] = [:]
    private var sweepAt = 64
    /// The models that were requested in this turn.
    private var asked: OrderedDictionary<ObjectIdentifier, AnyObject> = [:]
    private var kept: OrderedDictionary<ObjectIdentifier, Kept> = [:]
    private let delay: any Clock<Duration>

    /// - Parameter delay: The clock of the grace period.
    nonisolated init(delay: any Clock<Duration>) { self.delay = delay }

    /// Updates the models of these keys to the current state.
    func applyNewest(_ keys: [QueryKey]) {
        for key in keys { (entries[key]?.model as? any FollowingModel)?.applyNewest() }
    }

    /// Updates all models to the current state.
    func applyNewest() {
        for entry in entries.values { (entry.model as? any FollowingModel)?.applyNewest() }
    }

    /// Updates all models to the current user.
    func userChanged() {
        for entry in entries.values { (entry.model as? any FollowingModel)?.userChanged() }
    }

    /// Returns the model of a key and type; creates it if there is none.
    ///
    /// - Parameters:
    ///   - key: The key of the model; `nil` always creates a new model.
    ///   - make: Creates the model.
    /// - Returns: The model, which is retained at least for this turn.
    func model<Model: AnyObject>(_ key: QueryKey?, _ make: () -> Model) -> Model {
        if let key, let model = entries[key]?.model as? Model {
            keepForTurn(model)
            return model
        }
        let model = make()
        keepForTurn(model)
        if let key { enter(model, as: key) }
        return model
    }

    /// Adds another key for a model, unless the key has a model.
    func add(_ model: AnyObject, as key: QueryKey) {
        if entries[key]?.model == nil { enter(model, as: key) }
    }

    private func enter(_ model: AnyObject, as key: QueryKey) {
        entries[key] = Entry(model: model)
        guard entries.count > sweepAt else { return }
        entries = entries.filter { $0.value.model != nil }
        sweepAt = max(64, entries.count * 2)  // Swept once for each doubling.
    }

    /// Starts the grace period of a model whose value has changed: a view that follows it requests
    /// it.
    func startGrace(of model: AnyObject) {
        let id = ObjectIdentifier(model)
        guard let current = kept[id], current.end == nil else { return }
        kept[id]?.end = Task { [weak self, delay] in
            let grace = ClientLimits.unheldModelGrace
            guard (try? await delay.sleep(for: grace)) != nil, !Task.isCancelled else { return }
            self?.kept[id] = nil
        }
    }

    private func keepForTurn(_ model: AnyObject) {
        if asked.isEmpty { Task { endTurn() } }
        asked[ObjectIdentifier(model)] = model
    }

    private func endTurn() {
        for id in asked.keys { kept.removeValue(forKey: id)?.end?.cancel() }
        var index = kept.count
        kept.merge(asked.mapValues { Kept(model: $0) }) { $1 }
        asked = [:]
        while index < kept.count {
            if isKnownUniquelyReferenced(&kept.values[index].model) {
                index += 1
            } else {
                kept.remove(at: index)
            }
        }
        while kept.count > ClientLimits.unheldModels { kept.removeFirst().value.end?.cancel() }
    }
}
