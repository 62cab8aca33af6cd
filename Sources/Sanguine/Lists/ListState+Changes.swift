import SanguineModel

extension ListState {
    /// The app has changed rows, which no page that is on its way may have in it.
    ///
    /// What is under way begins anew, up to `PageLimits.restarts` times: rows that are pushed all
    /// the time must not keep a refresh from its end.
    mutating func change(_ list: PageList<Item>) -> Actions {
        var actions = amend(list)
        restart(&actions)
        return actions
    }

    /// The app has brought a list, as if it had been loaded at that time.
    mutating func set(_ list: PageList<Item>, at now: Timestamp) -> Actions {
        var actions = amend(list)
        beginning = PageList()
        dropped = []
        isLoaded = true
        asOf = now
        (headError, failedHeadLoad, tailError) = (nil, nil, nil)
        restart(&actions)
        return actions
    }

    private mutating func restart(_ actions: inout Actions) {
        defer { checkInvariants() }
        let underWay = [head, tail].compactMap { $0?.number }
        guard !underWay.isEmpty, restarts < PageLimits.restarts else { return }
        restarts += 1
        actions.cancel += underWay
        (head, tail) = (nil, nil)
        hasRecovered = false
        proceed(&actions)
    }
}
