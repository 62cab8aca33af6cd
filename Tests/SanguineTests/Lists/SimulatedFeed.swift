import SanguineModel

@testable import Sanguine

/// A row of the simulated server.
struct FeedRow: Codable, Sendable, Equatable, Identifiable {
    var id: Int
    /// The sort key of the list, newest first; neighbors often share it.
    var time: Int
    var text = 0
    /// The answer that contained the row, see ``SimulatedFeed/answers``; 0 on the server.
    var answer = 0

    var place: FeedPlace { FeedPlace(time: time, id: id) }
}

/// A position in the list's total order: newer rows come first, and rows with the same time are
/// sorted by descending id.
struct FeedPlace: Comparable, Hashable {
    var time: Int
    var id: Int

    static let beginning = FeedPlace(time: .max, id: .max)
    static let end = FeedPlace(time: .min, id: .min)

    static func < (one: Self, other: Self) -> Bool {
        (one.time, one.id) > (other.time, other.id)
    }
}

/// One answer of the server: the part of the list that it covers, and the version of that part.
struct FeedAnswer {
    var version: Int
    /// The position that the page follows.
    var start = FeedPlace.beginning
    /// The position of the page's last row, or the end of the list if nothing follows.
    var end = FeedPlace.end
    var last: FeedRow?

    func covers(_ place: FeedPlace) -> Bool { start < place && place <= end }
}

/// A server's list with keyset cursors, sorted by time and id so that equal times lose no row.
///
/// It records its answers and each row's history, so that a ``FeedJudge`` can check what a client
/// shows.
struct SimulatedFeed {
    /// The history of a row.
    struct History {
        /// The row's positions and the versions in which it moved there; the last is current.
        var places: [(moved: Int, place: FeedPlace)]
        /// The version in which it was deleted.
        var deleted: Int?

        var place: FeedPlace? { places.last?.place }
        var moved: Int { places.last?.moved ?? 0 }

        func place(at version: Int) -> FeedPlace? { places.last { $0.moved <= version }?.place }
    }

    private(set) var rows: [FeedRow] = []
    /// Increases with every change.
    private(set) var version = 0
    /// All answers, by number; no row has the number 0.
    private(set) var answers = [FeedAnswer(version: 0)]
    private(set) var history: [Int: History] = [:]
    private var lastID = 0
    private var time = 1_000
    /// Cursors of an earlier age are rejected.
    private var age = 0

    init(count: Int, largestPage: Int = 12, largest: Int = 64) {
        self.largestPage = largestPage
        self.largest = largest
        for _ in 0..<count { insert(onTop: true, jump: 1) }
    }

    /// The maximum number of rows in an answer, regardless of the requested limit.
    let largestPage: Int
    /// The minimum number of rows, once there have been that many.
    static let smallest = 20
    /// The maximum number of rows.
    let largest: Int

    /// Returns the page after the cursor, or `nil` if the cursor has expired.
    mutating func page(after cursor: String?, limit: Int) -> ListPage<FeedRow>? {
        var answer = FeedAnswer(version: version)
        if let cursor {
            let parts = cursor.split(separator: ":").compactMap { Int($0) }
            guard parts.count == 3, parts[2] == age else { return nil }
            answer.start = FeedPlace(time: parts[0], id: parts[1])
        }
        let start = rows.firstIndex { $0.place > answer.start } ?? rows.count
        var items = Array(rows[start...].prefix(min(limit, largestPage)))
        for index in items.indices { items[index].answer = answers.count }
        let hasMore = start + items.count < rows.count
        answer.last = items.last
        if hasMore, let last = items.last { answer.end = last.place }
        answers.append(answer)
        let next = hasMore ? items.last.map { "\($0.time):\($0.id):\(age)" } : nil
        return ListPage(items: items, hasMore: hasMore, nextCursor: next)
    }

    /// Inserts a row at the top, or next to the row at that index.
    mutating func insert(onTop: Bool, jump: Int, at place: Int = 0) {
        guard rows.count < largest else { return delete(rows.count - 1) }
        lastID += 1
        time += jump
        let there = rows.isEmpty ? time : rows[place % rows.count].time
        put(FeedRow(id: lastID, time: onTop ? time : there))
    }

    /// Appends a row.
    mutating func append() {
        guard rows.count < largest else { return delete(0) }
        lastID += 1
        put(FeedRow(id: lastID, time: (rows.last?.time ?? time) - 1))
    }

    mutating func delete(_ place: Int) {
        guard rows.count > Self.smallest else { return }
        let row = rows.remove(at: place % rows.count)
        version += 1
        history[row.id]?.deleted = version
    }

    /// Deletes the row with that id, regardless of the minimum.
    mutating func delete(id: Int) {
        rows.removeAll { $0.id == id }
        version += 1
        history[id]?.deleted = version
    }

    /// Moves a row to the top.
    mutating func bump(_ place: Int, jump: Int) {
        guard !rows.isEmpty else { return }
        time += jump
        var row = rows.remove(at: place % rows.count)
        row.time = time
        put(row)
    }

    /// Moves a row to another index.
    mutating func move(_ place: Int, to other: Int) {
        guard rows.count > 1 else { return }
        let there = rows[other % rows.count].time
        var row = rows.remove(at: place % rows.count)
        row.time = there
        put(row)
    }

    mutating func edit(_ place: Int) {
        guard !rows.isEmpty else { return }
        rows[place % rows.count].text += 1
        version += 1
    }

    mutating func expireCursors() { age += 1 }

    private mutating func put(_ row: FeedRow) {
        let index = rows.firstIndex { $0.place > row.place } ?? rows.count
        rows.insert(row, at: index)
        version += 1
        history[row.id, default: History(places: [])].places.append((version, row.place))
    }
}
