import SanguineModel

extension ListState {
    /// Applies a change of rows by the app, which pages that are being loaded may not contain.
    ///
    /// Loads in progress start over, up to `PageLimits.restarts` times: a constant stream of
    /// changes must not prevent a refresh from completing.
    mutating func apply(_ list: PageList<Item>) -> Actions {
        var actions = replaceRows(list)
        restart(&actions)
        return actions
    }

    /// Stores a list from the app as if it had been loaded at that time.
    mutating func set(_ list: PageList<Item>, at now: Timestamp) -> Actions {
        var actions = replaceRows(list)
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
