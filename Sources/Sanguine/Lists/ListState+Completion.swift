import SanguineModel

extension ListState {
    /// Handles the page of a request.
    ///
    /// Returns `nil` if the page must be ignored because it came too late.
    mutating func complete(_ number: UInt64, _ page: ListPage<Item>) -> Actions? {
        defer { checkInvariants() }
        var actions = Actions()
        restarts = 0
        if var fetch = head, fetch.number == number {
            fetch.chain.append(page, round: fetch.round)
            head = nil
            if fetch.isRecovering {
                completeRecovery(fetch, &actions)
            } else {
                completeHead(fetch, &actions)
            }
        } else if var fetch = tail, fetch.number == number {
            fetch.chain.append(page, round: fetch.round)
            tail = nil
            if fetch.isRecovering {
                completeRecovery(fetch, &actions)
            } else {
                completeNext(fetch, &actions)
            }
        } else {
            return nil
        }
        proceed(&actions)
        return actions
    }

    /// Handles the failure of a request.
    ///
    /// The rows and the cursor stay, so that the next try continues there.
    ///
    /// - Parameters:
    ///   - number: The number of the request.
    ///   - error: The error.
    ///   - isCursorExpired: Whether the cursor has expired, so that the load recovers.
    /// - Returns: The actions to perform, or `nil` if the failure came too late to matter.
    mutating func fail(
        _ number: UInt64,
        _ error: SanguineError,
        isCursorExpired: Bool = false
    ) -> Actions? {
        defer { checkInvariants() }
        guard let fetch = [head, tail].compactMap({ $0 }).first(where: { $0.number == number })
        else { return nil }
        var actions = Actions()
        if fetch.load == .next { tail = nil } else { head = nil }
        if isCursorExpired, canRecover(fetch) {
            if fetch.load == .refresh {
                // The failed page lay between the start and the reader's row: the list continues
                // without it.
                merge(fetch, at: 0, reach: nil, &actions)
            } else {
                if fetch.load == .next { hasRecovered = true }
                var recovery = fetch
                recovery.chain = PageChain(start: nil)
                recovery.isRecovering = true
                recovery.sentAt = nil
                recovery.round = list.round + 1
                proceed(with: recovery, limit: PageLimits.largestSize, &actions)
            }
        } else {
            switch fetch.load {
            case .next: tailError = error
            case .review: reviewsLeft = 0
            case .refresh, .previous:
                headError = error
                failedHeadLoad = fetch.load
            }
            answer(fetch.load, error: error, in: &actions)
        }
        proceed(&actions)
        return actions
    }

    /// Whether a new cursor may help, which is not tried twice in a row.
    private func canRecover(_ fetch: ListFetch<Item>) -> Bool {
        fetch.chain.next != nil && !fetch.isRecovering && !(fetch.load == .next && hasRecovered)
    }
}

// MARK: - Head

extension ListState {
    private mutating func completeHead(_ fetch: ListFetch<Item>, _ actions: inout Actions) {
        let chain = fetch.chain
        var index = 0
        var before: [Item.ID] = []
        switch fetch.load {
        case .review:
            // The list may have changed in the meantime, so that the page is gone.
            guard let run = list.runs.firstIndex(where: { $0.start == chain.start })
            else { return }
            index = run
        case .previous:
            // The last rows of the dropped page, which precede the held rows.
            guard let page = dropped.last, page.start == chain.start else { return }
            before = page.ends.filter { !ids.contains($0) }
        case .refresh, .next:
            break
        }
        let offset = list.offset(ofRun: index)
        let held = before + list.rows[offset...].map(\.id)
        let alignment = PageAlignment(
            held: held,
            fresh: chain.rows.map(\.id),
            freshSet: chain.ids
        )
        guard chain.next != nil else {
            return merge(fetch, at: index, reach: list.rows.count - offset, &actions)
        }
        var reach = alignment.reach
        if fetch.load == .refresh, hasPrevious, !overlaps(chain, alignment) {
            if mustStay(beside: chain) { return stay(beside: fetch, &actions) }
            reach = nil
        }
        // A single row in both ranges may have moved.
        let isTouching = chain.next == list.runs.first?.start || alignment.stayed > 1
        let isSure = !alignment.hasLoss && (fetch.load != .previous || isTouching)
        if let reach, reach >= before.count {
            return merge(
                fetch,
                at: index,
                reach: reach - before.count,
                isSure: isSure,
                &actions
            )
        }
        let isEmpty = fetch.load == .refresh && chain.rows.isEmpty
        let most = isEmpty ? PageLimits.emptyPages : PageLimits.refreshRequests
        if isTooLittle(fetch), chain.requests < most {
            return proceed(with: fetch, limit: PageLimits.largestSize, &actions)
        }
        merge(fetch, at: index, reach: nil, &actions)
        if isEmpty { tailError = .problem(.emptyPages) }
    }

    /// Whether to request more before the held rows behind are given up.
    ///
    /// A review or a previous page always requests more, because the reader is at that end. A
    /// refresh may happen anywhere; it requests more only if the reader's row would be lost.
    private func isTooLittle(_ fetch: ListFetch<Item>) -> Bool {
        guard fetch.load == .refresh, !fetch.chain.rows.isEmpty else { return true }
        guard !hasPrevious, let row = fetch.anchor ?? shown else { return false }
        return ids.contains(row) && !fetch.chain.ids.contains(row)
    }

    /// Whether a chain from the list's beginning reaches rows further down.
    ///
    /// The two ranges do not start at the same position, so a few common rows may have moved up.
    /// The chain reaches the others only if most of its rows, from the first common one on, are
    /// held.
    private func overlaps(_ chain: PageChain<Item>, _ alignment: PageAlignment) -> Bool {
        let behind = chain.rows.drop { !ids.contains($0.id) }
        return alignment.reach != nil && alignment.stayed > 1
            && alignment.stayed * 2 > behind.count
    }

    /// Whether the reader's row would be lost if the list started over.
    private func mustStay(beside chain: PageChain<Item>) -> Bool {
        guard let anchor else { return false }
        return ids.contains(anchor) && !chain.ids.contains(anchor)
    }

    /// Leaves the rows in place, although the list has a new beginning.
    private mutating func stay(beside fetch: ListFetch<Item>, _ actions: inout Actions) {
        var rest = list
        rest.round += 1
        if let end = rest.remove(fetch.chain.ids) { rest.next = end.start }
        replaceList(by: rest)
        refreshed(by: fetch, &actions)
    }

    /// Completes a refresh: its rows are in the list, or known to be elsewhere.
    private mutating func refreshed(by fetch: ListFetch<Item>, _ actions: inout Actions) {
        let chain = fetch.chain
        asOf = fetch.arrivedAt
        beginning = PageList(rows: chain.rows, runs: chain.runs, next: chain.next)
        beginning.round = list.round
        headError = nil
        failedHeadLoad = nil
        reviewsLeft = PageLimits.refreshRequests
        restartOther(than: .refresh, &actions)
        answer(.refresh, error: nil, in: &actions)
        actions.hasNewBase = true
    }

    /// Merges a chain into the list: it replaces the rows that it covers.
    ///
    /// - Parameters:
    ///   - fetch: The load that has completed.
    ///   - index: The run at which the chain begins.
    ///   - reach: The number of rows that it replaces from there; `nil` for all, because the rows
    ///     that follow it are unknown.
    ///   - isSure: Whether no row was lost, so that the rows behind need no review.
    ///   - actions: The actions to perform.
    private mutating func merge(
        _ fetch: ListFetch<Item>,
        at index: Int,
        reach: Int?,
        isSure: Bool = true,
        _ actions: inout Actions
    ) {
        let chain = fetch.chain
        var round = list.round
        if fetch.load == .refresh || fetch.isRecovering { round += 1 }
        let offset = list.offset(ofRun: index)
        let backStart = offset + (reach ?? list.rows.count - offset)
        var front = PageList<Item>(
            rows: Array(list.rows[..<offset]),
            runs: Array(list.runs[..<index])
        )
        var back = behind(list, backStart)
        let gap = front.remove(chain.ids)
        let end = back.remove(chain.ids)
        var runs = chain.runs
        if let gap, !runs.isEmpty { runs[0].takeOver(gap) }
        if !back.runs.isEmpty {
            let isSure = isSure && list.follows(chain.next, at: backStart)
            if let next = chain.next { back.runs[0].start = next }
            if !isSure { back.runs[0].round = min(back.runs[0].round, round - min(round, 1)) }
        }
        let appended = list.appendedIDs
        // If the chain extends beyond the last fetched row, its cursor applies.
        let isAtEnd = back.rows.allSatisfy { appended.contains($0.id) }
        var merged = PageList<Item>(
            rows: front.rows + chain.rows + back.rows,
            runs: front.runs + runs + back.runs,
            next: isAtEnd ? chain.next : end?.start ?? list.next,
            round: round,
            folded: list.folded,
            possiblyApplied: list.possiblyApplied,
            overtaking: list.overtaking
        )
        merged.countAppended { appended.contains($0) && !chain.ids.contains($0) }
        merged.joinSmallRuns(upTo: pageSize)
        if fetch.load == .previous, !fetch.isRecovering {
            dropped.removeLast()
        } else if index == 0, chain.start == nil {
            dropped = []
        }
        replaceList(by: merged)
        // The error belongs to the former cursor.
        if isAtEnd { tailError = nil }
        isLoaded = true
        let isAtTop = fetch.load == .previous && !fetch.isRecovering
        dropFarEnd(from: isAtTop ? nil : fetch.anchor)
        if fetch.load == .refresh { return refreshed(by: fetch, &actions) }
        if fetch.load == .previous {
            headError = nil
            failedHeadLoad = nil
        }
        if fetch.load != .next { answer(fetch.load, error: nil, in: &actions) }
        actions.hasNewBase = true
    }

    /// Keeps the list within its limit: drops the end farther from the reader's row, or the list's
    /// end.
    private mutating func dropFarEnd(from anchor: Item.ID?) {
        guard list.runs.count > pageLimit else { return }
        let row = anchor.flatMap { anchor in list.rows.firstIndex { $0.id == anchor } }
        var run = row.flatMap(list.run(ofRow:)) ?? 0
        while list.runs.count > pageLimit {
            if run > list.runs.count / 2 {
                removeFirstRun()
                run -= 1
            } else {
                removeLastRun()
            }
        }
    }

    /// Returns the rows from an index on, with their runs.
    private func behind(_ list: PageList<Item>, _ row: Int) -> PageList<Item> {
        var offset = 0
        var runs: [PageRun] = []
        for var run in list.runs {
            offset += run.count
            guard offset > row else { continue }
            run.count = min(run.count, offset - row)
            runs.append(run)
        }
        return PageList(rows: Array(list.rows[row...]), runs: runs)
    }
}

// MARK: - Tail

extension ListState {
    private mutating func completeNext(_ fetch: ListFetch<Item>, _ actions: inout Actions) {
        var fetch = fetch
        // The list was truncated or started over in the meantime; `proceed` continues at its new
        // end.
        guard list.next == fetch.chain.start else { return }
        // A row that has moved into a newer page stays there.
        fetch.chain.leaveOut(ids(newerThan: fetch.round))
        let chain = fetch.chain
        if chain.rows.isEmpty, chain.next != nil, chain.requests < PageLimits.emptyPages {
            return proceed(with: fetch, limit: pageSize, &actions)
        }
        guard !chain.rows.isEmpty || chain.next == nil else {
            list.next = chain.next
            tailError = .problem(.emptyPages)
            answer(.next, error: tailError, in: &actions)
            actions.hasNewBase = true
            return
        }
        var runs = chain.runs
        if chain.ids.contains(where: ids.contains) {
            let gap = list.remove(chain.ids)
            if let gap, !runs.isEmpty { runs[0].takeOver(gap) }
            rearranged()
        }
        list.rows += chain.rows
        list.runs += runs
        list.next = chain.next
        list.appended = 0
        ids.formUnion(chain.ids)
        while list.runs.count > pageLimit { removeFirstRun() }
        tailError = nil
        answer(.next, error: nil, in: &actions)
        actions.hasNewBase = true
    }

    /// Returns the rows of rounds after the given one.
    private func ids(newerThan round: UInt64) -> Set<Item.ID> {
        guard round < list.round else { return [] }
        var newer: Set<Item.ID> = []
        var offset = 0
        for run in list.runs {
            let range = offset..<(offset + run.count)
            offset = range.upperBound
            if run.round > round { newer.formUnion(list.rows[range].lazy.map(\.id)) }
        }
        return newer
    }
}

// MARK: - Recovery

extension ListState {
    /// Handles a page on the way from the list's beginning to the position of an expired cursor.
    private mutating func completeRecovery(_ fetch: ListFetch<Item>, _ actions: inout Actions) {
        let chain = fetch.chain
        let isThere =
            chain.next == nil || hasPassed(fetch.anchor, chain) || hasReachedEnd(chain)
            || chain.requests >= PageLimits.recoveryRequests
        guard isThere else {
            return proceed(with: fetch, limit: PageLimits.largestSize, &actions)
        }
        restartOther(than: fetch.load, &actions)
        // Callers that wait for the next page keep waiting; `proceed` requests it.
        guard fetch.load != .next, chain.next != nil else {
            return merge(fetch, at: 0, reach: nil, &actions)
        }
        let alignment = PageAlignment(
            held: list.rows.lazy.map(\.id),
            fresh: chain.rows.map(\.id),
            freshSet: chain.ids
        )
        let isKnown = !hasPrevious || overlaps(chain, alignment)
        let reach = isKnown ? alignment.reach : nil
        merge(fetch, at: 0, reach: reach, isSure: !alignment.hasLoss, &actions)
    }

    /// Cancels the load in the other direction if this one has overtaken it.
    ///
    /// Both have requested the same part of the list, and the earlier request must not overwrite
    /// newer rows. Its callers keep waiting: `proceed` requests the part again.
    private mutating func restartOther(than load: ListLoad, _ actions: inout Actions) {
        if load == .next, let fetch = head {
            actions.cancel.append(fetch.number)
            head = nil
        } else if load != .next, let fetch = tail, fetch.isRecovering {
            actions.cancel.append(fetch.number)
            tail = nil
            hasRecovered = false
        }
    }

    /// Whether most of the last held rows are in the chain.
    private func hasReachedEnd(_ chain: PageChain<Item>) -> Bool {
        let last = list.rows.suffix(pageSize)
        return last.count { chain.ids.contains($0.id) } * 2 > last.count
    }

    /// Whether the chain extends a page beyond the row.
    private func hasPassed(_ anchor: Item.ID?, _ chain: PageChain<Item>) -> Bool {
        guard let anchor, chain.ids.contains(anchor) else { return false }
        return !chain.rows.suffix(pageSize).contains { $0.id == anchor }
    }

    /// Sends the next request of a load.
    private mutating func proceed(
        with fetch: ListFetch<Item>,
        limit: Int,
        _ actions: inout Actions
    ) {
        var fetch = fetch
        fetch.number = nextNumber()
        actions.start.append(
            ListRequest(
                number: fetch.number,
                load: fetch.load,
                cursor: fetch.chain.next,
                limit: limit,
                priority: priority(of: fetch.load)
            )
        )
        if fetch.load == .next { tail = fetch } else { head = fetch }
    }
}
