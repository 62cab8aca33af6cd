import SanguineModel
import Synchronization

// MARK: - Effects

extension PagesKeeper {
    func effectsChanged() {
        let observers = guarded.withLock { Array($0.observers.values) }
        for observer in observers { observer.tell() }
    }

    /// Makes what operations have done a part of the rows.
    ///
    /// Not what was done after a request under way was sent: its page may not contain it, and would
    /// never show it.
    func fold() {
        while true {
            guard let effects = queries.effects(on: entry.key)?.effects else { return }
            let (list, span, isLoaded, partition, oldest) = guarded.withLock { guarded in
                let state = guarded.state
                let oldest = guarded.sent.values.min() ?? .max
                return (
                    guarded.noted(state.list), state.span, state.isLoaded, guarded.partition,
                    oldest
                )
            }
            let done = effects.filter { effect in
                effect.acknowledgedAt.map { $0 < oldest } ?? false
            }
            guard !done.isEmpty else { return }
            let new = done.filter { !list.folded.contains($0.sequence) }
            if !new.isEmpty, isLoaded {
                let folded = new.reduce(ValueBox.of(list)) { box, effect in
                    effect.list?.folded(box, effect) ?? box
                }
                guard let folded = folded.value(as: PageList<Item>.self) else { return }
                let isTaken = change { guarded in
                    guard guarded.partition === partition, guarded.state.span == span,
                        guarded.folded == list.folded
                    else { return nil }
                    // What is no longer an effect need not be remembered.
                    guarded.folded = folded.folded.intersection(effects.map(\.sequence))
                    return guarded.state.amend(folded)
                }
                guard isTaken else {
                    if guarded.withLock({ $0.isClosed || $0.partition !== partition }) { return }
                    continue
                }
            }
            for effect in done { queries.foldBase(of: effect) }
            return save(onlyIfWorthwhile: false)
        }
    }

    /// Takes a page over, with what operations mean for its rows.
    func land(_ request: PagesRequest, _ page: Page<Item>, _ partition: Partition) {
        var mustRetry = true
        while mustRetry {
            mustRetry = false
            let (list, span) = guarded.withLock { ($0.noted($0.state.list), $0.state.span) }
            let effects = queries.effects(on: entry.key)?.effects ?? []
            let landing = PageLanding(page, over: list, effects: effects)
            change { guarded in
                guard guarded.partition === partition else { return nil }
                guard effects.isEmpty || guarded.state.span == span else {
                    mustRetry = true
                    return nil
                }
                let sent = guarded.sent[request.number]
                guarded.forget(request)
                if !effects.isEmpty {
                    for row in page.items { guarded.doubts[row.id] = landing.doubts[row.id] }
                } else if !guarded.doubts.isEmpty {
                    guarded.doubts = [:]
                }
                let effect = guarded.state.land(request.number, landing.page)
                guarded.carry(sent, to: effect?.start ?? [])
                return effect
            }
        }
    }
}

extension PagesKeeper.Guarded {
    /// A request is over.
    mutating func forget(_ request: PagesRequest) {
        tasks[request.number] = nil
        priorities[request.number] = nil
        sent[request.number] = nil
    }

    /// A load that goes on with another request has rows that are as old as its first one.
    mutating func carry(_ sent: UInt64?, to requests: [PagesRequest]) {
        let chains = [state.head, state.tail].compactMap { $0 }.filter { $0.chain.requests > 0 }
        for request in requests where chains.contains(where: { $0.number == request.number }) {
            self.sent[request.number] = sent
        }
    }

    /// A list with what operations mean for its rows.
    func noted(_ list: PageList<Item>) -> PageList<Item> {
        var list = list
        list.folded = folded
        list.doubts = doubts
        return list
    }
}
