/// Where a fresh stretch of a list ends among the rows that are held.
///
/// Both begin at the same place of the list. The fresh stretch says what follows it from there, as
/// far as it reaches; the question is up to which held row it reaches. A row that is in both may
/// have moved, so no single row answers it:
///
/// 1. Rows in both whose order is the same in both *stayed*: the longest such run. Of runs of one
///    length, the one that ends earliest counts.
/// 2. Held rows that stand before the end of that run and are not in the fresh stretch *went*:
///    they lie between rows that are there, and they are not.
/// 3. The stretches are *connected* if some row stayed, and at least twice as many stayed as went.
///    Otherwise the run is more likely to be rows that moved up, and what follows the fresh
///    stretch is not known.
/// 4. If they are connected, the held rows behind the run follow the fresh ones.
///
/// So a row that was deleted goes, a row that was pushed down by others stays, a row that moved up
/// stands where it is now and nowhere else. What stands behind the run is older than the fresh
/// stretch and may have changed: it is seen again when it is shown.
struct PageAlignment: Equatable {
    /// How many held rows the fresh ones stand for; `nil` if the two are not connected.
    let reach: Int?
    /// Whether rows went.
    let hasLoss: Bool
    /// How many rows stayed.
    let stayed: Int

    /// Aligns two stretches that begin at the same place.
    init<ID: Hashable>(held: some Collection<ID>, fresh: [ID], freshSet: Set<ID>) {
        var positions: [ID: Int] = [:]
        for (index, id) in held.enumerated() where freshSet.contains(id) { positions[id] = index }
        // Patience sorting: `ends[n]` is the smallest end of a rising run of n + 1 positions.
        var ends: [Int] = []
        for id in fresh {
            guard let position = positions[id] else { continue }
            var low = 0
            var high = ends.count
            while low < high {
                let middle = (low + high) / 2
                if ends[middle] < position { low = middle + 1 } else { high = middle }
            }
            if low == ends.count { ends.append(position) } else { ends[low] = position }
        }
        stayed = ends.count
        guard let last = ends.last else {
            reach = nil
            hasLoss = false
            return
        }
        let seen = positions.values.count { $0 <= last }
        let went = last + 1 - seen
        reach = went * 2 <= ends.count ? last + 1 : nil
        hasLoss = went > 0
    }
}
