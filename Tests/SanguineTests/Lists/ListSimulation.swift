import SanguineModel
import SanguineTesting

@testable import Sanguine

/// A list, a server whose rows are added, deleted and moved, and a network that delays, reorders
/// and fails, all driven by one seed.
///
/// A ``FeedJudge`` checks the list after each event.
struct ListSimulation {
    private struct Exchange {
        let request: ListRequest
        /// The server's version when the request was sent.
        let asked: Int
        /// The server's answer, or `nil` while the request is on its way.
        var answer: Answer?
    }

    private struct Answer {
        let page: ListPage<FeedRow>?
        let version: Int
        /// The index of the answer in the feed's answers.
        let number: Int
    }

    /// The error of an expired cursor.
    private static let expired = SanguineError.queryFailed(ClosureFailure("expired"))

    static let pageSize = 4
    static let pageLimit = 7

    private(set) var state = ListState<FeedRow>(pageSize: pageSize, pageLimit: pageLimit)
    private(set) var feed: SimulatedFeed
    private(set) var lastEvent = "start"
    /// A description of the first violation.
    private(set) var fault: String?
    private(set) var completions = 0
    private(set) var recoveries = 0
    private(set) var reviews = 0
    /// The number of refreshes that kept the position of a reader further down.
    private(set) var stays = 0
    /// See ``FeedJudge``.
    var excused: Int { judge.excused }
    /// The number of answers that arrived after the server had changed.
    private(set) var late = 0
    private var random: SplitMix64
    private var exchanges: [Exchange] = []
    private var waiters: [UInt64: ListLoad] = [:]
    private var judge = FeedJudge()
    /// The pages that the current fetch in each lane has received so far.
    private var pending: [Bool: [FeedJudge.AppliedPage]] = [:]
    /// Whether the cursor has been renewed for the callers that wait for the next page.
    private var isRenewed = false
    private var lastWaiter: UInt64 = 0
    private var lastRequest: UInt64 = 0
    /// The rows of an observer that applies only changes.
    private var mirror: [FeedRow] = []
    private var span: PageSpan?

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        feed = SimulatedFeed(count: 40)
    }

    // MARK: - Events

    /// Plays one event.
    mutating func step() {
        switch roll(100) {
        case 0..<4: event("insert on top") { $0.feed.insert(onTop: true, jump: $0.roll(2)) }
        case 4..<6:
            event("insert") { $0.feed.insert(onTop: false, jump: 0, at: $0.roll(1_000)) }
        case 6..<11: event("delete") { $0.feed.delete($0.roll(1_000)) }
        case 11..<13: event("bump") { $0.feed.bump($0.roll(1_000), jump: $0.roll(2)) }
        case 13..<14: event("move") { $0.feed.move($0.roll(1_000), to: $0.roll(1_000)) }
        case 14..<15: event("edit") { $0.feed.edit($0.roll(1_000)) }
        case 15..<16: event("several") { $0.changeSeveral() }
        case 16: if roll(4) == 0 { event("expire") { $0.feed.expireCursors() } }
        case 17: if roll(20) == 0 { event("reset") { $0.reset() } }
        case 18..<34: event("next") { $0.join(.next) }
        case 34..<38: event("refresh") { $0.join(.refresh) }
        case 38..<42: event("previous") { $0.join(.previous) }
        case 42..<45: event("leave") { $0.leave() }
        case 45..<53: event("show") { $0.show($0.roll(1_000)) }
        case 53..<55: event("anchor") { $0.setAnchor() }
        case 55..<75: event("arrive") { $0.arrive($0.roll(1_000)) }
        case 75..<98: event("deliver") { $0.deliver($0.roll(1_000)) }
        default: event("fail") { $0.lose($0.roll(1_000)) }
        }
    }

    /// Finishes all requests while the server is idle, reviews every row and compares the held rows
    /// with the server's; then loads to the end and back to the beginning.
    mutating func settle() {
        lastEvent = "settle"
        finish()
        join(.refresh)
        finish()
        for _ in 0..<3 { lookAtAll() }
        compare("after looking at every row")
        for _ in 0..<200 where state.hasMore && fault == nil {
            join(.next)
            finish()
        }
        if state.list.rows.last?.id != feed.rows.last?.id { blame("the end was not reached") }
        compare("at the end")
        for _ in 0..<200 where state.hasPrevious && fault == nil {
            join(.previous)
            finish()
        }
        if state.list.rows.first?.id != feed.rows.first?.id { blame("the top was not reached") }
        lookAtAll()
        compare("back at the top")
    }

    private mutating func changeSeveral() {
        switch roll(3) {
        case 0: for _ in 0..<roll(30) { feed.insert(onTop: true, jump: 1) }
        case 1: for _ in 0..<roll(8) { feed.delete(roll(12)) }
        default: for _ in 0..<roll(3) { feed.append() }
        }
    }

    private mutating func reset() {
        play(state.reset(.userChanged))
        judge.reset()
    }

    private mutating func lookAtAll() {
        for row in state.list.rows {
            play(state.show(row.id))
            finish()
        }
    }

    private mutating func event(_ name: String, _ body: (inout ListSimulation) -> Void) {
        lastEvent = name
        body(&self)
        check()
    }

    private mutating func roll(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }

    // MARK: - The reader

    private mutating func join(_ load: ListLoad) {
        lastWaiter += 1
        waiters[lastWaiter] = load
        play(state.join(load, waiter: lastWaiter))
    }

    private mutating func leave() {
        guard let waiter = waiters.keys.min() else { return }
        play(state.leave(waiter: waiter))
        if state.tail == nil { isRenewed = false }
    }

    private mutating func show(_ place: Int) {
        guard !state.list.rows.isEmpty else { return }
        play(state.show(state.list.rows[place % state.list.rows.count].id))
    }

    private mutating func setAnchor() {
        let rows = state.list.rows
        state.setAnchor(rows.isEmpty || roll(3) == 0 ? nil : rows[roll(rows.count)].id)
    }

    // MARK: - The network

    private mutating func play(_ actions: ListState<FeedRow>.Actions) {
        for number in actions.cancel {
            if !exchanges.contains(where: { $0.request.number == number }) {
                blame("cancelled a request that is not under way")
            }
            for exchange in exchanges where exchange.request.number == number {
                pending[exchange.request.load == .next] = []
            }
            exchanges.removeAll { $0.request.number == number }
        }
        for (waiter, error) in actions.answer {
            guard let load = waiters.removeValue(forKey: waiter) else {
                blame("answered a caller that does not wait")
                continue
            }
            if load == .next, error == Self.expired, !isRenewed {
                blame("a cursor that could be renewed was reported as expired")
            }
        }
        if actions.answer.contains(where: { $0.error != .cancelled }), state.tail == nil {
            isRenewed = false
        }
        for request in actions.start {
            if request.number <= lastRequest { blame("numbers do not rise") }
            lastRequest = request.number
            if request.load == .review { reviews += 1 }
            exchanges.append(Exchange(request: request, asked: feed.version))
        }
    }

    private mutating func arrive(_ pick: Int) {
        guard !exchanges.isEmpty else { return }
        let index = pick % exchanges.count
        guard exchanges[index].answer == nil else { return }
        let request = exchanges[index].request
        let page = feed.page(after: request.cursor, limit: request.limit)
        let number = feed.answers.count - 1
        exchanges[index].answer = Answer(page: page, version: feed.version, number: number)
    }

    private mutating func deliver(_ pick: Int) {
        guard !exchanges.isEmpty else { return }
        let index = pick % exchanges.count
        guard let answer = exchanges[index].answer else { return }
        let exchange = exchanges.remove(at: index)
        let request = exchange.request
        let isNext = request.load == .next
        guard let page = answer.page else {
            recoveries += 1
            let actions = state.fail(request.number, Self.expired, isCursorExpired: true)
            // A refresh continues with the rows that it has.
            let applied = actions?.hasNewBase == true ? pending[isNext] ?? [] : []
            pending[isNext] = []
            end(actions)
            if isNext, state.tail != nil { isRenewed = true }
            return look(after: applied)
        }
        completions += 1
        if answer.version < feed.version { late += 1 }
        let isFurtherDown = request.load == .refresh && state.hasPrevious
        let place = isFurtherDown ? state.anchor.flatMap { state.ids.contains($0) ? $0 : nil } : nil
        let isApart = page.hasMore && page.items.allSatisfy { !state.ids.contains($0.id) }
        // Rows that have moved into a page that may be newer than this one stay there.
        let isOvertaken =
            request.load == .next && state.tail.map { $0.round < state.list.round } ?? false
        let actions = state.complete(request.number, page)
        pending[isNext, default: []].append(
            FeedJudge.AppliedPage(answer: answer.number, asked: exchange.asked)
        )
        let applied = settlePending(isNext, actions)
        end(actions)
        judge.brought(page.items, feed)
        if request.load == .refresh, state.hasPrevious {
            // The rows keep their positions, except for those at the beginning.
            judge.left(state.beginning.rows)
            look(after: [])
        } else {
            look(after: applied)
        }
        guard actions?.hasNewBase == true else { return }
        if let place, isApart {
            stays += 1
            if !state.ids.contains(place) { blame("a refresh removed the reader's row") }
        }
        if page.hasMore, !state.hasMore, state.list.rows.last?.id == page.items.last?.id {
            blame("the list hides that there are more rows")
        }
        if !isOvertaken, answer.version == feed.version { checkOrder(of: page) }
    }

    /// Returns the pages that are now in the list, if the fetch in that lane has finished with
    /// them.
    private mutating func settlePending(
        _ isNext: Bool,
        _ actions: ListState<FeedRow>.Actions?
    ) -> [FeedJudge.AppliedPage] {
        let applied = pending[isNext] ?? []
        let isEnded = actions?.hasNewBase == true
        let fetch = isNext ? state.tail : state.head
        if isEnded || fetch?.chain.requests ?? 0 == 0 { pending[isNext] = [] }
        return isEnded ? applied : []
    }

    private mutating func look(after applied: [FeedJudge.AppliedPage]) {
        let view = FeedJudge.View(
            rows: state.list.rows,
            hasMore: state.hasMore,
            hasPrevious: state.hasPrevious
        )
        guard state.isLoaded else { return }
        if let found = judge.fault(in: view, of: feed, after: applied) { blame(found) }
    }

    private mutating func lose(_ pick: Int) {
        guard !exchanges.isEmpty else { return }
        let request = exchanges.remove(at: pick % exchanges.count).request
        pending[request.load == .next] = []
        end(state.fail(request.number, .queryFailed(ClosureFailure("lost"))))
    }

    private mutating func end(_ actions: ListState<FeedRow>.Actions?) {
        guard let actions else { return blame("a request under way is unknown") }
        play(actions)
    }

    private mutating func finish() {
        var rounds = 0
        while !exchanges.isEmpty, fault == nil {
            arrive(0)
            deliver(0)
            check()
            rounds += 1
            if rounds > 500 { blame("requests without end") }
        }
        if !waiters.isEmpty { blame("a caller waits forever") }
    }

    // MARK: - Invariants

    private mutating func blame(_ text: String) {
        if fault == nil { fault = "\(text), at '\(lastEvent)'" }
    }

    private mutating func check() {
        if exchanges.count(where: { $0.request.load == .next }) > 1
            || exchanges.count(where: { $0.request.load != .next }) > 1
        {
            blame("two loads in one direction")
        }
        if state.isIdle != exchanges.isEmpty { blame("the directions differ from the requests") }
        // The other checks concern only the rows, and still hold if these are unchanged.
        guard span != state.span else { return }
        state.change(since: span).apply(to: &mirror)
        span = state.span
        if mirror != state.list.rows { blame("the changes do not match the rows") }
        if state.list.runs.count > Self.pageLimit { blame("too many pages") }
    }

    /// Checks that the rows of an answer that is still valid are adjacent and in its order.
    private mutating func checkOrder(of page: ListPage<FeedRow>) {
        let ids = Set(page.items.map(\.id))
        let places = state.list.rows.indices.filter { ids.contains(state.list.rows[$0].id) }
        guard let first = places.first, let last = places.last else { return }
        if last - first + 1 != places.count { blame("a page was torn apart") }
        let shown = places.map { state.list.rows[$0] }
        if shown != page.items.filter({ row in shown.contains { $0.id == row.id } }) {
            blame("a page is not in its order, or not its newest version")
        }
    }

    /// Compares the held rows with the same range of the server's list, row by row.
    private mutating func compare(_ moment: String) {
        guard fault == nil else { return }
        let rows = state.list.rows
        let truth = feed.rows.drop { $0.id != rows.first?.id }.prefix(rows.count)
        let isTrue = zip(rows, truth).allSatisfy { $0.place == $1.place && $0.text == $1.text }
        if rows.count != truth.count || !isTrue {
            blame(
                "\(moment): held \(rows.map(\.id)), the server has \(truth.map(\.id)); marks "
                    + "\(state.list.runs), round \(state.list.round)"
            )
        }
        if !state.hasPrevious, rows.first?.id != feed.rows.first?.id { blame("\(moment): no top") }
    }
}
