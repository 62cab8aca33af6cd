/// A round-robin queue: each call of ``popFirst()`` returns the oldest element of the next owner.
///
/// Invariants:
/// 1. The elements of an owner leave in the order in which they were appended.
/// 2. Between two elements of an owner, every other owner with elements is served exactly once.
struct FairQueue<Owner: Hashable, Element> {
    private var waiting: [Owner: [Element]] = [:]
    /// The owners with elements, in the order of their turns.
    private var turns: [Owner] = []
    /// The number of elements.
    private(set) var count = 0

    mutating func append(_ element: Element, of owner: Owner) {
        if waiting[owner] == nil { turns.append(owner) }
        waiting[owner, default: []].append(element)
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard let owner = turns.first else { return nil }
        turns.removeFirst()
        let element = waiting[owner]?.removeFirst()
        if waiting[owner]?.isEmpty == false {
            turns.append(owner)
        } else {
            waiting[owner] = nil
        }
        count -= 1
        return element
    }
}
