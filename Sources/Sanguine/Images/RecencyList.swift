/// Keys in the order of their last use.
///
/// Each event takes constant time.
///
/// Invariants: each key is linked once; following `next` from `first` visits all keys and ends at
/// `last`.
struct RecencyList<Key: Hashable & Sendable>: Sendable {
    private struct Links: Sendable {
        var previous: Key?
        var next: Key?
    }

    private var links: [Key: Links] = [:]
    /// The key whose last use is the longest ago.
    private(set) var first: Key?
    /// The key that was used last.
    private(set) var last: Key?

    var count: Int { links.count }

    /// Makes the key the last one used; adds it if it is new.
    mutating func use(_ key: Key) {
        guard last != key else { return }
        remove(key)
        links[key] = Links(previous: last, next: nil)
        if let last { links[last]?.next = key } else { first = key }
        last = key
    }

    /// Removes the key, if it is there.
    mutating func remove(_ key: Key) {
        guard let link = links.removeValue(forKey: key) else { return }
        if let previous = link.previous {
            links[previous]?.next = link.next
        } else {
            first = link.next
        }
        if let next = link.next {
            links[next]?.previous = link.previous
        } else {
            last = link.previous
        }
    }

    /// Returns the key that was used next after this one; `nil` for the last.
    func next(after key: Key) -> Key? { links[key]?.next }

    func contains(_ key: Key) -> Bool { links[key] != nil }
}
