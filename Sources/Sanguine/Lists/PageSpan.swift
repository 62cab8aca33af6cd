/// The range of a list's current rows among all rows since it was last rearranged.
///
/// With it, an observer that has the former rows takes over only the new ones, at the cost of a
/// page, and compares nothing.
struct PageSpan: Hashable, Sendable {
    /// Increases when rows change other than by being appended or dropped at the beginning.
    var era: UInt64 = 0
    /// The number of the first row.
    var first = 0
    /// The number after that of the last row.
    var end = 0
}

/// The change of a list's rows since a span.
enum PageChange<Item: PageItem>: Sendable, Equatable where Item.ID: Sendable {
    case nothing
    /// Rows were dropped at the beginning, and rows were appended.
    case slid(dropped: Int, appended: [Item])
    case all([Item])
}

extension ListState {
    /// The span of the current rows.
    var span: PageSpan {
        PageSpan(era: era, first: droppedInEra, end: droppedInEra + list.rows.count)
    }

    /// Returns the change since a span; all rows, if it cannot be expressed by a few.
    func change(since old: PageSpan?) -> PageChange<Item> {
        let new = span
        guard old != new else { return .nothing }
        guard let old, old.era == new.era, old.first <= new.first, new.first <= old.end,
            old.end <= new.end
        else { return .all(list.rows) }
        return .slid(
            dropped: new.first - old.first,
            appended: Array(list.rows[(old.end - new.first)...])
        )
    }
}

extension PageChange {
    /// Applies the change to the rows of the former span.
    func apply(to rows: inout [Item]) {
        switch self {
        case .nothing: break
        case .slid(let dropped, let appended):
            rows.removeFirst(dropped)
            rows += appended
        case .all(let all): rows = all
        }
    }
}
