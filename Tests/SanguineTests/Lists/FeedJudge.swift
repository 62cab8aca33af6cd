import SanguineModel

@testable import Sanguine

/// Checks what a client shows of a ``SimulatedFeed``: the strict model of a list.
///
/// A row is shown at the position that it had in the answer that contained it. From these positions
/// and the server's history, the judge checks these rules:
///
/// 1. No row is shown twice.
/// 2. Rows are shown in the server's order.
/// 3. A deleted row is no longer shown once a page that covers its position, requested after the
///    deletion, has been applied.
/// 4. No row is missing between two shown rows, before the first row, or after the last row when
///    the list reports no more rows, if the answer that contained one of these rows covers that
///    position.
/// 5. Applying a page removes a row from between others only if the page covers the row's position.
/// 6. The list reports more rows if rows follow the last one, unless they were added after the
///    answer that reached the end of the list.
///
/// No client can know the following, so neither is a fault. A row that has moved since it was shown
/// is missing until its new position is requested. A page's last row marks where the page ends
/// among the held rows: if that row has itself moved down, deleted rows that it has passed remain
/// after the page until they are reviewed.
struct FeedJudge {
    /// A page that the client has applied.
    struct AppliedPage {
        /// The index of the answer in ``SimulatedFeed/answers``.
        var answer: Int
        /// The server's version when the page was requested.
        var asked: Int
    }

    /// The list as the client shows it.
    struct View {
        var rows: [FeedRow]
        var hasMore: Bool
        var hasPrevious: Bool
    }

    /// The rows that were last shown or received at a position that they have left since.
    private var misplaced: Set<Int> = []
    private var before: [FeedRow] = []
    /// The latest answers that contained the beginning and the end of the list.
    private var top: FeedAnswer?
    private var end: FeedAnswer?
    /// The number of violations that a last row that had moved down excused.
    private(set) var excused: Int

    init(excused: Int = 0) { self.excused = excused }

    /// Checks the list after an event.
    ///
    /// - Parameters:
    /// - Parameters:
    ///   - view: The list as it is shown now.
    ///   - feed: The server.
    ///   - appliedPages: The pages that were applied, in the order of their answers.
    /// - Returns: A description of the violation, or `nil`.
    mutating func fault(
        in view: View,
        of feed: SimulatedFeed,
        after appliedPages: [AppliedPage] = []
    ) -> String? {
        for applied in appliedPages { recordEnds(applied, feed) }
        recordMoves(view.rows, feed)
        defer { before = view.rows }
        return doubled(view)
            ?? disordered(view, feed)
            ?? dead(view, feed, appliedPages)
            ?? missing(view, feed)
            ?? vanished(view, feed, appliedPages)
    }

    /// Forgets all observations because the client starts over.
    mutating func reset() { self = FeedJudge(excused: excused) }

    private mutating func recordEnds(_ applied: AppliedPage, _ feed: SimulatedFeed) {
        let answer = feed.answers[applied.answer]
        if answer.start == .beginning { top = answer }
        if answer.end == .end { end = answer }
    }

    private mutating func recordMoves(_ rows: [FeedRow], _ feed: SimulatedFeed) {
        for row in rows {
            let isThere = feed.history[row.id]?.place == row.place
            if isThere { misplaced.remove(row.id) } else { misplaced.insert(row.id) }
        }
    }

    /// Records the rows of an answer that is not shown and may be older than the shown rows.
    mutating func brought(_ rows: [FeedRow], _ feed: SimulatedFeed) {
        for row in rows where feed.history[row.id]?.place != row.place {
            misplaced.insert(row.id)
        }
    }

    /// Records that the rows are known to have left their positions.
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

    /// Whether the answer's last row has moved down past the row since the row was last seen.
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
        _ appliedPages: [AppliedPage]
    ) -> String? {
        for applied in appliedPages {
            for row in view.rows where feed.answers[applied.answer].covers(row.place) {
                guard let deleted = feed.history[row.id]?.deleted, deleted <= applied.asked
                else { continue }
                guard hasPassed(row, applied.answer, feed) else {
                    return "row \(row.id) was deleted before the request, and is still shown"
                }
                excused += 1
            }
        }
        return nil
    }

    private func missing(_ view: View, _ feed: SimulatedFeed) -> String? {
        let ids = Set(view.rows.lazy.map(\.id))
        if !view.rows.isEmpty, !view.hasMore, end == nil { return "no page has reached the end" }
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
        _ appliedPages: [AppliedPage]
    ) -> String? {
        guard !before.isEmpty, let first = view.rows.first, let last = view.rows.last
        else { return nil }
        let ids = Set(view.rows.lazy.map(\.id))
        for row in before where !ids.contains(row.id) && !misplaced.contains(row.id) {
            guard let history = feed.history[row.id], history.deleted == nil,
                history.place == row.place,
                first.place < row.place, row.place < last.place
            else { continue }
            let isCovered = appliedPages.contains { feed.answers[$0.answer].covers(row.place) }
            if !isCovered { return "row \(row.id) has vanished" }
        }
        return nil
    }
}
