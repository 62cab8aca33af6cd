import SanguineModel

/// Reconciles a fetched page with the effects on its list.
///
/// This applies the rule of ``FetchedBase`` to each row: if the page may contain an effect that is
/// not idempotent, the parts of a row that the effect changes keep their earlier values, from the
/// held row or from the row that another effect inserts. For other rows, the earlier values are
/// unknown.
///
/// Pure, except for the app code in the effects; created without a lock.
struct PageMerge<Item: PageItem>: Sendable where Item.ID: Sendable {
    /// The page without the remaining effects.
    private(set) var page: ListPage<Item>
    /// The operations that a row of the page may contain; their effects are not applied to it.
    ///
    /// `nil` if the list has no effects.
    private(set) var possiblyApplied: [Item.ID: PossiblyApplied]?

    /// Reconciles a page.
    ///
    /// - Parameters:
    ///   - page: The fetched page.
    ///   - held: The held list.
    ///   - effects: The effects on the list, in order; those that are merged into the list are
    ///     skipped.
    init(_ page: ListPage<Item>, over held: PageList<Item>, effects: [Effect]) {
        self.page = page
        guard !effects.isEmpty else { return }
        possiblyApplied = [:]
        let remaining = effects.filter { !held.folded.contains($0.sequence) }
        guard remaining.contains(where: { $0.sending != nil }) else { return }
        let adding = Self.adding(remaining, to: page.items)
        guard !adding.isEmpty else { return }
        let old = Dictionary(held.rows.map { ($0.id, $0) }) { first, _ in first }
        for index in page.items.indices {
            let row = page.items[index]
            guard let own = adding[row.id] else { continue }
            let inserted = { Self.inserted(row.id, by: remaining, besides: own, into: held.rows) }
            guard let before = old[row.id] ?? inserted() else {
                possiblyApplied?[row.id] = PossiblyApplied(own)
                continue
            }
            let known = held.possiblyApplied[row.id] ?? PossiblyApplied()
            let unknown = own.filter(known.contains)
            let shown = own.filter { !known.contains($0) }
            possiblyApplied?[row.id] = unknown.isEmpty ? nil : PossiblyApplied(unknown)
            guard !shown.isEmpty else { continue }
            if let patched = Self.patch(row, before, shown) {
                self.page.items[index] = patched
            } else {
                // The changes of the effects cannot be separated, so the row keeps its earlier
                // value.
                self.page.items[index] = before
                possiblyApplied?[row.id] = held.possiblyApplied[row.id]
            }
        }
    }

    /// Returns the effects that a row may contain and that would change it again, by row.
    ///
    /// A row that an effect removes stays here for the effects after it: the removal may be
    /// refused, and then those effects become visible on the row.
    private static func adding(_ effects: [Effect], to rows: [Item]) -> [Item.ID: [Effect]] {
        var adding: [Item.ID: [Effect]] = [:]
        var rows = rows
        for effect in effects {
            var once = applied(effect, to: rows)
            if effect.sending != nil {
                let before = Dictionary(rows.map { ($0.id, $0) }) { first, _ in first }
                let twice = Dictionary(applied(effect, to: once).map { ($0.id, $0) }) { $1 }
                for index in once.indices {
                    let id = once[index].id
                    guard let row = before[id], twice[id] != once[index] else { continue }
                    adding[id, default: []].append(effect)
                    once[index] = row
                }
            }
            let left = Set(once.lazy.map(\.id))
            rows = once + rows.filter { !left.contains($0.id) }
        }
        return adding
    }

    /// Returns the row as inserted by the first effect that is not in `adding`; `nil` if none
    /// inserts it.
    ///
    /// Later effects are not included: they are applied to the fetched page.
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
