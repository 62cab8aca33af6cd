/// Where a fresh stretch of a list ends among the rows that are held.
///
/// Both begin at the same place of the list. The fresh stretch is the list from there up to its
/// last row, and says nothing of what follows. So everything depends on that last row:
///
/// 1. If it is held, and stands where it stood, then what was held before it is now the fresh
///    stretch, and what was held behind it still follows.
/// 2. Held rows before it that are not in the fresh stretch *went*.
/// 3. If it is not held, it is not known which of the held rows follow it: those between may have
///    been deleted, or the row may have come in front of them.
///
/// A row that is held may have moved, and then rule 1 drops rows that are there, or keeps rows that
/// are gone. So the held row that precedes it in the fresh stretch must have preceded it before,
/// and no more rows may have come up from behind it than stayed. Where rows went there must be more
/// to show for it, since rows that moved up look the same: the last three rows are neighbors in
/// both, and at least twice as many stayed as went.
///
/// What stands behind is older than the fresh stretch and may have changed: it is seen again when
/// it is shown.
struct PageAlignment: Equatable {
    /// How many held rows the fresh ones stand for; `nil` if that is not known.
    var reach: Int?
    /// Whether rows went.
    var hasLoss = false
    /// How many of the rows for which the fresh ones stand are still there.
    var stayed = 0

    /// Aligns two stretches that begin at the same place.
    init<ID: Hashable>(held: some Collection<ID>, fresh: [ID], freshSet: Set<ID>) {
        var positions: [ID: Int] = [:]
        for (index, id) in held.enumerated() where freshSet.contains(id) { positions[id] = index }
        guard let last = fresh.last, let place = positions[last] else { return }
        let ends = fresh.reversed().lazy.compactMap { positions[$0] }.prefix(Self.neighbors)
        if let preceding = ends.dropFirst().first, preceding > place { return }
        stayed = positions.values.count { $0 <= place }
        guard positions.count <= stayed * 2 else { return }
        let went = place + 1 - stayed
        hasLoss = went > 0
        let areNeighbors = ends.elementsEqual((0..<Self.neighbors).map { place - $0 })
        if went == 0 || areNeighbors && went * 2 <= stayed { reach = place + 1 }
    }

    /// How many rows at the end must have stayed together where others went.
    private static let neighbors = 3
}
