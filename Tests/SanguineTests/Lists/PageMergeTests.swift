import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import Sanguine

/// Applies a fetched page to rows with pending effects, without a client.
@Suite("Effects on fetched pages")
struct PageMergeTests {
    private let query = ValueQuery<PageList<Track>>("tracks") { _ in PageList() }

    /// An effect that plays track 1 once more; it adds, so that a duplicate is visible.
    private func play(_ sequence: Int64, sentAt: UInt64?) -> Effect {
        var effect = Effect(sequence: sequence, query: query.erased) { box, effect in
            guard var list = box.value(as: PageList<Track>.self) else { return box }
            for place in list.rows.indices where list.possiblyApplied[1]?.contains(effect) != true {
                list.rows[place].plays += 1
            }
            return .of(list)
        }
        effect.sentAt = sentAt
        return effect
    }

    private func shown(_ merge: PageMerge<Track>, _ effects: [Effect]) -> Int? {
        var list = PageList(rows: merge.page.items)
        list.possiblyApplied = merge.possiblyApplied ?? [:]
        let box = EffectTable.List(effects: effects).applied(to: .of(list))
        return box.value(as: PageList<Track>.self)?.rows.first?.plays
    }

    @Test func `an effect that was shown stays when a fetched row may contain it`() {
        // The row may contain the first play; the second is shown and was sent later.
        var held = PageList(rows: [Track(id: 1, plays: 1)])
        let effects = [play(1, sentAt: 1), play(2, sentAt: 5)]
        held.possiblyApplied = [1: PossiblyApplied([effects[0]])]
        let page = ListPage(items: [Track(id: 1, plays: 1, title: "Theirs")], hasMore: false)

        let merge = PageMerge(page, over: held, effects: effects)

        #expect(shown(merge, effects) == 2)
        #expect(merge.page.items.first?.title == "Theirs")
        #expect(merge.possiblyApplied == [1: PossiblyApplied([effects[0]])])
    }

    @Test func `an effect that a first row may contain is not shown on top of it`() {
        let effects = [play(1, sentAt: 1), play(2, sentAt: 5), play(3, sentAt: nil)]
        let page = ListPage(items: [Track(id: 1, plays: 2)], hasMore: false)

        let merge = PageMerge(page, over: PageList(), effects: effects)

        #expect(shown(merge, effects) == 3)
        #expect(merge.possiblyApplied == [1: PossiblyApplied([effects[0], effects[1]])])
    }

    /// Inserts track 1.
    private func insert(_ sequence: Int64, sentAt: UInt64?) -> Effect {
        var insert = Effect(sequence: sequence, query: query.erased) { box, _ in
            guard var list = box.value(as: PageList<Track>.self),
                !list.rows.contains(where: { $0.id == 1 })
            else { return box }
            list.rows.append(Track(id: 1))
            return .of(list)
        }
        insert.sentAt = sentAt
        return insert
    }

    @Test func `a write to a row that another write inserts stays when the row is fetched`() {
        let effects = [insert(1, sentAt: 1), play(2, sentAt: 5)]
        // The row was read before the play was applied.
        let page = ListPage(items: [Track(id: 1, title: "Theirs")], hasMore: false)

        let merge = PageMerge(page, over: PageList(), effects: effects)

        #expect(shown(merge, effects) == 1)
        #expect(merge.page.items.first?.title == "Theirs")
        #expect(merge.possiblyApplied == [:])
    }

    @Test func `a row that a pending write removes may contain another write`() {
        let remove = Effect(sequence: 1, query: query.erased) { box, _ in
            guard var list = box.value(as: PageList<Track>.self) else { return box }
            list.rows.removeAll { $0.id == 1 }
            return .of(list)
        }
        let play = play(2, sentAt: 5)
        let page = ListPage(items: [Track(id: 1, plays: 1)], hasMore: false)

        let merge = PageMerge(page, over: PageList(), effects: [remove, play])

        #expect(shown(merge, [remove, play]) == nil)
        // The server refuses the removal.
        #expect(shown(merge, [play]) == 1)
    }

    @Test func `a queued write to an inserted row is shown once when the row is fetched`() {
        let effects = [insert(1, sentAt: 1), play(2, sentAt: 5), play(3, sentAt: nil)]
        let page = ListPage(items: [Track(id: 1)], hasMore: false)

        let merge = PageMerge(page, over: PageList(), effects: effects)

        #expect(shown(merge, effects) == 2)
        #expect(merge.page.items.first?.plays == 0)
    }
}
