import SanguineModel

@testable import Sanguine

/// Says what must not be shown of a ``SimulatedFeed``: the strict model of a list.
///
/// A row is shown at the place that it had in the answer that brought it. By these places, and by
/// what the server's history knows:
///
/// 1. No row is shown twice.
/// 2. The rows stand in the server's order.
/// 3. A row is not shown that was deleted before a page was asked for that covers its place, once
///    that page has landed.
/// 4. A row is not missing that stands between two shown rows, or before the first or behind the
///    last where nothing more is announced, in a part that the answer of one of these covers.
/// 5. A landing takes no row away from between others, unless its page has covered the row's place.
/// 6. Rows that follow the last one are announced, unless they came after the answer that saw the
///    list's end.
///
/// Two things no client can know, and they are no faults. A row that has moved since it was shown
/// is missing until its new place is asked for. And a page's last row says where the page ends
/// among the rows that are held: if that row has itself moved down, dead rows that it has passed
/// stay behind the page until they are looked at.
struct FeedJudge {
    /// One page that a client has taken over.
    struct Landing {
        /// Its number among the answers.
        var answer: Int
        /// The server's version when it was asked for.
        var asked: Int
    }

    /// What is shown.
    struct View {
        var rows: [FeedRow]
        var hasMore: Bool
        var hasPrevious: Bool
    }

    /// Rows that were last shown, or brought, at a place where they no longer are.
    private var misplaced: Set<Int> = []
    private var before: [FeedRow] = []
    /// The last answers that began with the list, and that ended with it.
    private var top: FeedAnswer?
    private var end: FeedAnswer?
    /// How often a last row that has moved down excused something.
    private(set) var excused: Int

    init(excused: Int = 0) { self.excused = excused }

    /// Looks at what is shown after something has happened.
    ///
    /// - Parameters:
    ///   - view: What is shown now.
    ///   - feed: The server.
    ///   - landings: The pages that were taken over, if any were, in the order of their answers.
    /// - Returns: What must not be, or `nil`.
    mutating func fault(
        in view: View,
        of feed: SimulatedFeed,
        after landings: [Landing] = []
    ) -> String? {
        for landing in landings { note(landing, feed) }
        noteMoves(view.rows, feed)
        defer { before = view.rows }
        return doubled(view)
            ?? disordered(view, feed)
            ?? dead(view, feed, landings)
            ?? missing(view, feed)
            ?? vanished(view, feed, landings)
    }

    /// Everything is forgotten: the client begins anew.
    mutating func reset() { self = FeedJudge(excused: excused) }

    private mutating func note(_ landing: Landing, _ feed: SimulatedFeed) {
        let answer = feed.answers[landing.answer]
        if answer.start == .beginning { top = answer }
        if answer.end == .end { end = answer }
    }

    private mutating func noteMoves(_ rows: [FeedRow], _ feed: SimulatedFeed) {
        for row in rows {
            let isThere = feed.history[row.id]?.place == row.place
            if isThere { misplaced.remove(row.id) } else { misplaced.insert(row.id) }
        }
    }

    /// A page has brought rows that may not be shown from it, and be older than what is.
    mutating func brought(_ rows: [FeedRow], _ feed: SimulatedFeed) {
        for row in rows where feed.history[row.id]?.place != row.place {
            misplaced.insert(row.id)
        }
    }

    /// Rows that are known to be elsewhere, so that they have left their places.
    mutating func left(_ rows: [FeedRow]) { misplaced.formUnion(rows.lazy.map(\.id)) }

    // MARK: - The rules

    private func doubled(_ view: View) -> String? {
        var seen: Set<Int> = []
        let twice = view.rows.first { !seen.insert($0.id).inserted }
        return twice.map { "row \($0.id) is shown twice" }
    }

    private mutating func disordered(_ view: View, _ feed: SimulatedFeed) -> String? {
        for (one, other) in zip(view.rows, view.rows.dropFirst()) where one.place >= other.place {
            let passing = view.rows.prefix { $0.id != other.id }.filter { $0.place >= other.place }
            guard passing.allSatisfy({ hasPassed(other, $0.answer, feed) }) else {
                return "row \(other.id) follows \(one.id)"
            }
            excused += 1
        }
        return nil
    }

    /// Whether the answer's last row has moved down past that row since the latter was seen.
    private func hasPassed(_ row: FeedRow, _ number: Int, _ feed: SimulatedFeed) -> Bool {
        let (answer, other) = (feed.answers[number], feed.answers[row.answer])
        guard let last = answer.last, other.version < answer.version,
            let place = feed.history[last.id]?.place(at: other.version)
        else { return false }
        return place < row.place && row.place < last.place
    }

    private mutating func dead(
        _ view: View,
        _ feed: SimulatedFeed,
        _ landings: [Landing]
    ) -> String? {
        for landing in landings {
            for row in view.rows where feed.answers[landing.answer].covers(row.place) {
                guard let deleted = feed.history[row.id]?.deleted, deleted <= landing.asked
                else { continue }
                guard hasPassed(row, landing.answer, feed) else {
                    return "row \(row.id) was deleted before it was asked for, and is still shown"
                }
                excused += 1
            }
        }
        return nil
    }

    private func missing(_ view: View, _ feed: SimulatedFeed) -> String? {
        let ids = Set(view.rows.lazy.map(\.id))
        if !view.rows.isEmpty, !view.hasMore, end == nil { return "nobody has seen the end" }
        var index = 0
        for row in feed.rows {
            while index < view.rows.count, view.rows[index].place < row.place { index += 1 }
            guard !ids.contains(row.id), !misplaced.contains(row.id),
                let moved = feed.history[row.id]?.moved, !view.rows.isEmpty
            else { continue }
            let sides = [index - 1, index].filter(view.rows.indices.contains)
            guard index > 0 || !view.hasPrevious, index < view.rows.count || !view.hasMore
            else { continue }
            let isCovered = sides.contains { side in
                let answer = feed.answers[view.rows[side].answer]
                return answer.covers(row.place) && moved <= answer.version
            }
            let isKnown =
                index == 0 && top.map { $0.covers(row.place) && moved <= $0.version } == true
                || index == view.rows.count
                    && end.map { $0.covers(row.place) && moved <= $0.version } == true
            if isCovered || isKnown { return "row \(row.id) is missing" }
        }
        return nil
    }

    private func vanished(
        _ view: View,
        _ feed: SimulatedFeed,
        _ landings: [Landing]
    ) -> String? {
        guard !before.isEmpty, let first = view.rows.first, let last = view.rows.last
        else { return nil }
        let ids = Set(view.rows.lazy.map(\.id))
        for row in before where !ids.contains(row.id) && !misplaced.contains(row.id) {
            guard let history = feed.history[row.id], history.deleted == nil,
                history.place == row.place,
                first.place < row.place, row.place < last.place
            else { continue }
            let isCovered = landings.contains { feed.answers[$0.answer].covers(row.place) }
            if !isCovered { return "row \(row.id) has vanished" }
        }
        return nil
    }
}
