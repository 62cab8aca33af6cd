/// The position at which a fresh range of a list ends among the held rows.
///
/// Both start at the same position of the list. The fresh range is the list from there to its last
/// row, and says nothing about the rows that follow. So the last row decides:
///
/// 1. If it is held and has not moved, the fresh range replaces the held rows up to it, and the
///    held rows behind it still follow.
/// 2. Held rows before it that are not in the fresh range are *lost*.
/// 3. If it is not held, it is unknown which held rows follow it: the rows in between may have been
///    deleted, or the row may have been inserted before them.
///
/// A held row may have moved, and rule 1 would then drop rows that exist or keep rows that do not.
/// So the held row that precedes it in the fresh range must have preceded it before, and no more
/// rows may have moved up from behind it than stayed. If rows are lost, more evidence is needed,
/// because rows that moved up look the same: the last three rows must be neighbors in both ranges,
/// and at least twice as many rows must have stayed as were lost.
///
/// The rows behind the fresh range are older and may have changed. They are fetched again when they
/// are visible.
struct PageAlignment: Equatable {
    /// The number of held rows that the fresh ones replace; `nil` if it is unknown.
    var reach: Int?
    /// Whether rows are lost.
    var hasLoss = false
    /// The number of replaced rows that still exist.
    var stayed = 0

    /// Aligns two ranges that start at the same position.
    init<ID: Hashable>(held: some Collection<ID>, fresh: [ID], freshSet: Set<ID>) {
        var positions: [ID: Int] = [:]
        for (index, id) in held.enumerated() where freshSet.contains(id) { positions[id] = index }
        guard let last = fresh.last, let position = positions[last] else { return }
        let ends = fresh.reversed().lazy.compactMap { positions[$0] }.prefix(Self.neighbors)
        if let preceding = ends.dropFirst().first, preceding > position { return }
        stayed = positions.values.count { $0 <= position }
        guard positions.count <= stayed * 2 else { return }
        let went = position + 1 - stayed
        hasLoss = went > 0
        let areNeighbors = ends.elementsEqual((0..<Self.neighbors).map { position - $0 })
        if went == 0 || areNeighbors && went * 2 <= stayed { reach = position + 1 }
    }

    /// The number of rows at the end that must have stayed together if rows are lost.
    private static let neighbors = 3
}
