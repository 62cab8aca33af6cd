import SanguineModel

@testable import Sanguine

/// A row of the simulated server.
struct FeedRow: Codable, Sendable, Equatable, Identifiable {
    var id: Int
    /// What the list is sorted by, newest first; often equal to a neighbour's.
    var time: Int
    var text = 0
}

/// A server's list with keyset cursors: sorted by time and id, so that equal times lose no row.
struct SimulatedFeed {
    private(set) var rows: [FeedRow] = []
    /// Rises with every change.
    private(set) var version = 0
    private var lastID = 0
    private var time = 1_000
    /// Cursors of an earlier age are refused.
    private var age = 0

    init(count: Int, largestPage: Int = 12, largest: Int = 64) {
        self.largestPage = largestPage
        self.largest = largest
        for _ in 0..<count { insert(onTop: true, jump: 1) }
    }

    /// Rows of an answer at most, whatever is asked for.
    let largestPage: Int
    /// Rows at least, once there were so many.
    static let smallest = 20
    /// Rows at most.
    let largest: Int

    /// The page after the cursor, or `nil` if that has expired.
    func page(after cursor: String?, limit: Int) -> Page<FeedRow>? {
        var start = 0
        if let cursor {
            let parts = cursor.split(separator: ":").compactMap { Int($0) }
            guard parts.count == 3, parts[2] == age else { return nil }
            let last = FeedRow(id: parts[1], time: parts[0])
            start = rows.firstIndex { Self.isBefore(last, $0) } ?? rows.count
        }
        let items = Array(rows[start...].prefix(min(limit, largestPage)))
        let hasMore = start + items.count < rows.count
        let next = hasMore ? items.last.map { "\($0.time):\($0.id):\(age)" } : nil
        return Page(items: items, hasMore: hasMore, nextCursor: next)
    }

    mutating func insert(onTop: Bool, jump: Int, at place: Int = 0) {
        guard rows.count < largest else { return delete(rows.count - 1) }
        lastID += 1
        time += jump
        let there = rows.isEmpty ? time : rows[place % rows.count].time
        put(FeedRow(id: lastID, time: onTop ? time : there))
    }

    mutating func delete(_ place: Int) {
        guard rows.count > Self.smallest else { return }
        rows.remove(at: place % rows.count)
        version += 1
    }

    /// Moves a row to the top.
    mutating func bump(_ place: Int, jump: Int) {
        guard !rows.isEmpty else { return }
        time += jump
        var row = rows.remove(at: place % rows.count)
        row.time = time
        put(row)
    }

    /// Moves a row to somewhere else.
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
        let place = rows.firstIndex { Self.isBefore(row, $0) } ?? rows.count
        rows.insert(row, at: place)
        version += 1
    }

    private static func isBefore(_ one: FeedRow, _ other: FeedRow) -> Bool {
        (one.time, one.id) > (other.time, other.id)
    }
}
