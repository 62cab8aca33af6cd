/// Records what was invalidated by prefix, tag or dependency, and when, so that it costs no more to
/// invalidate ten thousand entries than one.
///
/// A *generation* is a number that increases with each invalidation. An entry is fresh only in the
/// generation that its key, tags and dependencies require. Marking writes one number; an entry
/// looks up its required generation at its next use, once for each ``revision``.
///
/// Invariants:
///
/// 1. Every mark is at most ``generation``.
/// 2. There are at most `limit` marks. At the limit the owner applies them to all entries and calls
///    ``forget()``.
struct InvalidationMarks: Sendable {
    /// The entries that an invalidation covers.
    enum Scope: Hashable, Sendable {
        /// One entry.
        case key(String)
        /// All keys that begin with these whole components.
        case prefix(String)
        /// All entries with the tag.
        case tag(String)
        /// All entries that depend on the named thing.
        case dependency(String)
        /// All entries.
        case everything

        /// Returns whether the scope covers an entry.
        func covers(key: String, policy: Policy) -> Bool {
            switch self {
            case .key(let own): key == own
            case .prefix(let prefix): Self.covers(key, prefix)
            case .tag(let tag): policy.tags.contains(tag)
            case .dependency(let name): policy.dependencies.contains(name)
            case .everything: true
            }
        }

        private static func covers(_ key: String, _ prefix: String) -> Bool {
            guard key.utf8.starts(with: prefix.utf8) else { return false }
            let rest = key.utf8.dropFirst(prefix.utf8.count)
            return rest.isEmpty || rest.first == UInt8(ascii: "/")
        }
    }

    /// The number of the newest invalidation, of one entry or of many.
    ///
    /// Begins at 1: a row that was stale on disk has generation 0, and needs 1.
    private(set) var generation: UInt64 = 1
    /// Changes with each invalidation of many.
    private(set) var revision: UInt64 = 0
    /// Counts invalidations of every kind: a reader of a row compares it to detect one.
    private(set) var invalidations: UInt64 = 0
    private var marks: [Scope: UInt64] = [:]
    private let limit: Int

    init(limit: Int = ClientLimits.invalidationMarks) { self.limit = limit }

    /// Whether the marks must be applied and forgotten.
    var isFull: Bool { marks.count >= limit }

    /// Returns a new generation, for a value that is set.
    mutating func next() -> UInt64 {
        generation += 1
        return generation
    }

    /// Returns the generation of an invalidation of single entries.
    mutating func invalidate() -> UInt64 {
        invalidations += 1
        return next()
    }

    /// Marks many entries; returns the generation that they now need.
    mutating func mark(_ scope: Scope) -> UInt64 {
        revision += 1
        if scope == .everything { marks = [:] }
        marks[scope] = invalidate()
        return generation
    }

    /// Returns the generation that an entry needs to be fresh; 0 if no mark covers it.
    func demand(key: String, policy: Policy) -> UInt64 {
        guard !marks.isEmpty else { return 0 }
        var demand = marks[.everything] ?? 0
        for tag in policy.tags { demand = max(demand, marks[.tag(tag)] ?? 0) }
        for name in policy.dependencies { demand = max(demand, marks[.dependency(name)] ?? 0) }
        // Each prefix of whole components: `a`, `a/b`, `a/b/c`.
        var end = key.utf8.startIndex
        while end < key.utf8.endIndex {
            let next = key.utf8[end...].firstIndex(of: UInt8(ascii: "/")) ?? key.utf8.endIndex
            demand = max(demand, marks[.prefix(String(key[..<next]))] ?? 0)
            end = next < key.utf8.endIndex ? key.utf8.index(after: next) : next
        }
        return demand
    }

    /// Removes the marks, after they were applied to all entries.
    mutating func forget() { marks = [:] }
}
