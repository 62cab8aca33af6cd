/// Which rows a list shows, of all that it has had since it was last rearranged.
///
/// So that who has shown the list before takes only what has come over, whose cost is that of a
/// page, and compares nothing.
struct PageSpan: Hashable, Sendable {
    /// Rises whenever rows change otherwise than by coming behind the last or going before the
    /// first.
    var era: UInt64 = 0
    /// The number of the first row.
    var first = 0
    /// The number behind that of the last row.
    var end = 0
}

/// What has become of a list's rows since a span was taken.
enum PageChange<Item: PageItem>: Sendable, Equatable where Item.ID: Sendable {
    case nothing
    /// Rows went before the first one that stayed, and rows came behind the last.
    case slid(dropped: Int, appended: [Item])
    case all([Item])
}

extension ListState {
    /// What the rows are now.
    var span: PageSpan {
        PageSpan(era: era, first: droppedInEra, end: droppedInEra + list.rows.count)
    }

    /// What has become of the rows since then; all of them, if that cannot be said of a few.
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
    /// Changes the rows of that span to what they are now.
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
