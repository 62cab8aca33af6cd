import SanguineModel

/// What a fetched page makes of rows whose list has effects.
///
/// The rule of ``FetchedBase``, row by row: an effect that may be contained in the page, and that
/// adds, finds in a row that is held, or that another effect inserts, what it was before; of any
/// other row, it is not known.
///
/// Pure, but for the app's code in the effects: built under no lock.
struct PageLanding<Item: PageItem>: Sendable where Item.ID: Sendable {
    /// The page without the effects that remain.
    private(set) var page: ListPage<Item>
    /// The operations that a row of the page may contain: their effects are not applied to it.
    ///
    /// `nil` if the list has no effects.
    private(set) var doubts: [Item.ID: Doubts]?

    /// Judges a page.
    ///
    /// - Parameters:
    ///   - page: What was fetched.
    ///   - held: The list that is held, with its doubts.
    ///   - effects: The effects on the list, in their order; those that are a part of the list
    ///     already are left out.
    init(_ page: ListPage<Item>, over held: PageList<Item>, effects: [Effect]) {
        self.page = page
        guard !effects.isEmpty else { return }
        doubts = [:]
        let remaining = effects.filter { !held.folded.contains($0.sequence) }
        guard remaining.contains(where: { $0.sending != nil }) else { return }
        let adding = Self.adding(remaining, to: page.items)
        guard !adding.isEmpty else { return }
        let old = Dictionary(held.rows.map { ($0.id, $0) }) { first, _ in first }
        for place in page.items.indices {
            let row = page.items[place]
            guard let own = adding[row.id] else { continue }
            let inserted = { Self.inserted(row.id, by: remaining, besides: own, into: held.rows) }
            guard let before = old[row.id] ?? inserted() else {
                doubts?[row.id] = Doubts(own)
                continue
            }
            let known = held.doubts[row.id] ?? Doubts()
            let unknown = own.filter(known.contains)
            let shown = own.filter { !known.contains($0) }
            doubts?[row.id] = unknown.isEmpty ? nil : Doubts(unknown)
            guard !shown.isEmpty else { continue }
            if let patched = Self.patch(row, before, shown) {
                self.page.items[place] = patched
            } else {
                // What they change cannot be told apart: the row stays as it is.
                self.page.items[place] = before
                doubts?[row.id] = held.doubts[row.id]
            }
        }
    }

    /// The effects that would be shown twice on a row that contained them, which it may.
    ///
    /// A row that an effect removes stays here for the effects after it: the removal may be
    /// refused, and then they are shown on the row.
    private static func adding(_ effects: [Effect], to rows: [Item]) -> [Item.ID: [Effect]] {
        var adding: [Item.ID: [Effect]] = [:]
        var rows = rows
        for effect in effects {
            var once = applied(effect, to: rows)
            if effect.sending != nil {
                let before = Dictionary(rows.map { ($0.id, $0) }) { first, _ in first }
                let twice = Dictionary(applied(effect, to: once).map { ($0.id, $0) }) { $1 }
                for place in once.indices {
                    let id = once[place].id
                    guard let row = before[id], twice[id] != once[place] else { continue }
                    adding[id, default: []].append(effect)
                    once[place] = row
                }
            }
            let left = Set(once.lazy.map(\.id))
            rows = once + rows.filter { !left.contains($0.id) }
        }
        return adding
    }

    /// The row as the first effect inserts it that does not add to it; `nil` if none does.
    ///
    /// Later effects are not part of it: they are applied to the page that lands.
    private static func inserted(
        _ id: Item.ID,
        by effects: [Effect],
        besides adding: [Effect],
        into rows: [Item]
    ) -> Item? {
        var rows = rows
        for effect in effects where !adding.contains(where: { $0.sequence == effect.sequence }) {
            rows = applied(effect, to: rows)
            if let row = rows.first(where: { $0.id == id }) { return row }
        }
        return nil
    }

    private static func applied(_ effect: Effect, to rows: [Item]) -> [Item] {
        let list = PageList<Item>(rows: rows)
        return effect.applied(to: .of(list)).value(as: PageList<Item>.self)?.rows ?? rows
    }

    private static func patch(_ fetched: Item, _ before: Item, _ effects: [Effect]) -> Item? {
        let after = effects.reduce([before]) { applied($1, to: $0) }.first { $0.id == before.id }
        guard let after else { return fetched }
        return FetchedBase.patch(.of(fetched), .of(before), .of(after)) { json in
            .of(try WireCoding.decode(Item.self, from: json))
        }?
        .value(as: Item.self)
    }
}
