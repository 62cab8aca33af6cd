import SanguineModel

/// Decides which decoded images stay in memory.
///
/// The least recently used images are evicted first, and visible ones only if nothing else is left.
/// Pure: no clock and no I/O. Each event takes constant time for each image that it evicts.
///
/// Invariants, checked after each event in debug builds:
///
/// 1. The cost is at most `limits.bytes`, and the number of images at most `limits.images`.
/// 2. `cost` is the sum of the costs of the images.
/// 3. Each image is in one of the two lists: in `shown` if it is visible, otherwise in `hidden`.
struct ImageMemory<Image: Sendable>: Sendable {
    struct Limits: Hashable, Sendable {
        var bytes: Int
        var images: Int
    }

    private struct Entry: Sendable {
        var image: Image
        let cost: Int
        /// The time at which the image must be checked; `nil` for one that never changes.
        var expiry: Timestamp?
    }

    let limits: Limits
    private(set) var cost = 0
    /// The number of images that were evicted to stay within the limits, or at a memory warning.
    private(set) var evicted = 0
    private var entries: [ImageKey: Entry] = [:]
    private var hidden = RecencyList<ImageKey>()
    private var shown = RecencyList<ImageKey>()
    /// The number of views that show an image, whether or not it has arrived.
    private var views: [ImageKey: Int] = [:]
    /// The sides of the images of a resource.
    private var sides: [ImageScope: [String: Set<Int>]] = [:]

    init(limits: Limits) { self.limits = limits }

    var count: Int { entries.count }

    /// The number of images that are visible and in memory.
    var visibleCount: Int { shown.count }

    func contains(_ key: ImageKey) -> Bool { entries[key] != nil }

    // MARK: - Looking up

    /// Returns the image that suits a key best, and uses it.
    ///
    /// - Parameter key: The key.
    /// - Returns: The image of that side; otherwise the smallest larger one; otherwise the largest
    ///   smaller one, which is only a thumbnail. `nil` if there is none of that resource.
    mutating func best(for key: ImageKey) -> (image: Image, key: ImageKey, expiry: Timestamp?)? {
        let all = sides[key.scope]?[key.resource] ?? []
        let larger = all.filter { $0 >= key.side }.min()
        guard let side = larger ?? all.max() else { return nil }
        let found = ImageKey(scope: key.scope, resource: key.resource, side: side)
        guard let entry = entries[found] else { return nil }
        use(found)
        return (entry.image, found, entry.expiry)
    }

    private mutating func use(_ key: ImageKey) {
        if views[key] != nil { shown.use(key) } else { hidden.use(key) }
    }

    // MARK: - Events

    /// Adds an image, or replaces the one with the same key.
    ///
    /// - Returns: Whether it is kept; `false` if it exceeds the limit, or is invisible and
    ///   visible images take all the room.
    @discardableResult
    mutating func add(
        _ image: Image,
        for key: ImageKey,
        cost: Int,
        expiry: Timestamp? = nil
    ) -> Bool {
        defer { checkInvariants() }
        remove(key)
        let cost = max(1, cost)
        guard cost <= limits.bytes, limits.images > 0 else { return false }
        entries[key] = Entry(image: image, cost: cost, expiry: expiry)
        sides[key.scope, default: [:]][key.resource, default: []].insert(key.side)
        self.cost += cost
        use(key)
        // An invisible image evicts itself before it evicts a visible one.
        while self.cost > limits.bytes || entries.count > limits.images {
            guard let victim = hidden.first ?? shown.first else { break }
            evict(victim)
        }
        return entries[key] != nil
    }

    /// Sets the time at which an image must be checked again.
    mutating func renew(_ key: ImageKey, expiry: Timestamp?) { entries[key]?.expiry = expiry }

    /// Records that a view shows the image, or will show it when it arrives.
    mutating func show(_ key: ImageKey) {
        defer { checkInvariants() }
        views[key, default: 0] += 1
        guard entries[key] != nil else { return }
        hidden.remove(key)
        shown.use(key)
    }

    /// Records that a view no longer shows the image.
    mutating func hide(_ key: ImageKey) {
        defer { checkInvariants() }
        guard let count = views[key] else { return }
        views[key] = count > 1 ? count - 1 : nil
        guard count == 1, entries[key] != nil else { return }
        shown.remove(key)
        hidden.use(key)
    }

    /// Evicts all images that no view shows.
    mutating func trim() {
        defer { checkInvariants() }
        while let key = hidden.first { evict(key) }
    }

    /// Removes the image of a key.
    mutating func remove(_ key: ImageKey) {
        guard let entry = entries.removeValue(forKey: key) else { return }
        cost -= entry.cost
        hidden.remove(key)
        shown.remove(key)
        sides[key.scope]?[key.resource]?.remove(key.side)
        guard sides[key.scope]?[key.resource]?.isEmpty == true else { return }
        sides[key.scope]?[key.resource] = nil
        if sides[key.scope]?.isEmpty == true { sides[key.scope] = nil }
    }

    /// Moves all images of a resource to another name of it, also those that a view shows.
    mutating func move(_ resource: String, to other: String, of scope: ImageScope) {
        defer { checkInvariants() }
        for side in sides[scope]?[resource] ?? [] {
            let key = ImageKey(scope: scope, resource: resource, side: side)
            guard let entry = entries[key] else { continue }
            // Removed first, so that there is room.
            remove(key)
            add(
                entry.image,
                for: ImageKey(scope: scope, resource: other, side: side),
                cost: entry.cost,
                expiry: entry.expiry
            )
        }
    }

    /// Removes all images of a resource.
    mutating func remove(_ resource: String, of scope: ImageScope) {
        defer { checkInvariants() }
        for side in sides[scope]?[resource] ?? [] {
            remove(ImageKey(scope: scope, resource: resource, side: side))
        }
    }

    /// Removes all images of a user, and forgets which of them are visible.
    mutating func removeAll(of scope: ImageScope) {
        defer { checkInvariants() }
        for resource in (sides[scope] ?? [:]).keys { remove(resource, of: scope) }
        views = views.filter { $0.key.scope != scope }
    }

    private mutating func evict(_ key: ImageKey) {
        remove(key)
        evicted += 1
    }

    private func checkInvariants() {
        #if DEBUG
        assert(
            cost <= limits.bytes && entries.count <= limits.images,
            "The memory is over a limit."
        )
        assert(hidden.count + shown.count == entries.count, "An image is in no list, or in both.")
        // With many images, the sum would cost more than the event.
        guard entries.count <= 64 else { return }
        assert(cost == entries.values.reduce(0) { $0 + $1.cost }, "The cost is not the sum.")
        assert(entries.keys.allSatisfy { shown.contains($0) == (views[$0] != nil) })
        #endif
    }
}
