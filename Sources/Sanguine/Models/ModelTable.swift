import OrderedCollections

/// A model that can take over what is known at any time.
@MainActor
protocol FollowingModel: AnyObject {
    func applyNewest()

    /// Lets go of what it shows of a user who has left, and takes over what is known now.
    func userChanged()
}

extension FollowingModel {
    func userChanged() { applyNewest() }
}

/// The models that are in use, so that all views of one query share one.
///
/// A view that asks for a model in its `body`, reads it and lets it go follows it all the same, and
/// nobody can see that: but then it was let go in the turn in which it was asked for. Such a model
/// is kept. When its value has changed, a view that is still there is drawn again and asks for it;
/// if nobody does within ``ClientLimits/unheldModelGrace``, it is let go. At most
/// ``ClientLimits/unheldModels`` are kept. A model that somebody holds ends with its last holder.
@MainActor
final class ModelTable {
    private struct Entry {
        weak var model: AnyObject?
    }

    /// A model that nobody else holds.
    private struct Kept {
        var model: AnyObject
        /// Waits to let it go.
        var end: Task<Void, Never>?
    }

    private var entries: [QueryKey: Entry] = [:]
    private var sweepAt = 64
    /// The models that were asked for in this turn.
    private var asked: OrderedDictionary<ObjectIdentifier, AnyObject> = [:]
    private var kept: OrderedDictionary<ObjectIdentifier, Kept> = [:]
    private let delay: any Clock<Duration>

    /// - Parameter delay: What the time is told by in which somebody may ask again.
    nonisolated init(delay: any Clock<Duration>) { self.delay = delay }

    /// Has the models of those keys take over what is known now.
    func applyNewest(_ keys: [QueryKey]) {
        for key in keys { (entries[key]?.model as? any FollowingModel)?.applyNewest() }
    }

    /// Has all models take over what is known now.
    func applyNewest() {
        for entry in entries.values { (entry.model as? any FollowingModel)?.applyNewest() }
    }

    /// Has all models follow the user who is there now.
    func userChanged() {
        for entry in entries.values { (entry.model as? any FollowingModel)?.userChanged() }
    }

    /// The model in use of that key and type, or a new one.
    ///
    /// - Parameters:
    ///   - key: What the model is of; `nil` if that has no name: then it is always a new one.
    ///   - make: Makes it.
    /// - Returns: The model, which is kept at least for this turn.
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

    /// A model is one of that key as well from now on, unless there is another.
    func add(_ model: AnyObject, as key: QueryKey) {
        if entries[key]?.model == nil { enter(model, as: key) }
    }

    private func enter(_ model: AnyObject, as key: QueryKey) {
        entries[key] = Entry(model: model)
        guard entries.count > sweepAt else { return }
        entries = entries.filter { $0.value.model != nil }
        sweepAt = max(64, entries.count * 2)  // Swept once for each doubling.
    }

    /// A model's value has changed: if a view follows it, it is asked for again.
    func changed(_ model: AnyObject) {
        let id = ObjectIdentifier(model)
        guard let present = kept[id], present.end == nil else { return }
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
        var place = kept.count
        kept.merge(asked.mapValues { Kept(model: $0) }) { $1 }
        asked = [:]
        while place < kept.count {
            if isKnownUniquelyReferenced(&kept.values[place].model) {
                place += 1
            } else {
                kept.remove(at: place)
            }
        }
        while kept.count > ClientLimits.unheldModels { kept.removeFirst().value.end?.cancel() }
    }
}
