import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import Synchronization

/// The app's own backend, with each person's data and the answers by idempotency key.
///
/// Failures follow from a seed: it answers 503 and does nothing, or applies the request and answers
/// 500. It applies requests with the same key once.
///
/// Mutable state: `state`, protected by a mutex.
final class ClientGameBackend: Sendable {
    struct Shelf: Sendable {
        var boards: [Int: GameBoard] = [:]
        /// Newest first.
        private(set) var entries: [GameEntry]
        /// The entries outside the list: they were removed from it, or never in it.
        private(set) var dropped: [GameEntry] = []
        /// All rows that the list ever had: a cursor is the position of one of them.
        private var places: [String]

        /// Creates a shelf with that many rows.
        init(rows: Int) {
            places = GameEntry.fixed(rows)
            entries = places.map { GameEntry(id: $0) }
        }

        mutating func insert(_ entry: GameEntry, isLast: Bool) {
            entries.insert(entry, at: isLast ? entries.count : 0)
            places.insert(entry.id, at: isLast ? places.count : 0)
        }

        mutating func drop(_ id: String) {
            guard let place = entries.firstIndex(where: { $0.id == id }) else { return }
            dropped.append(entries.remove(at: place))
        }

        mutating func mark(_ id: String, _ mark: String) {
            if let place = entries.firstIndex(where: { $0.id == id }) {
                entries[place].marks.append(mark)
            } else if let place = dropped.firstIndex(where: { $0.id == id }) {
                dropped[place].marks.append(mark)
            } else {
                dropped.append(GameEntry(id: id, marks: [mark]))
            }
        }

        /// Returns the rows after the one with that id, which may be deleted; without an id, all
        /// rows.
        func entries(after cursor: String?) -> [GameEntry] {
            guard let place = cursor.flatMap({ places.firstIndex(of: $0) }) else { return entries }
            let before = Set(places[...place])
            return entries.filter { !before.contains($0.id) }
        }
    }

    private struct State {
        var shelves: [Person: Shelf] = [:]
        /// The number of times that each mark was made.
        var made: [String: Int] = [:]
        var answers: [String: TransportResponse] = [:]
        var random: SplitMix64
        var isWell = false
    }

    private let state: Mutex<State>
    private let rows: Int

    /// - Parameters:
    ///   - seed: The seed that determines the failures.
    ///   - rows: The number of rows that the shared list has initially.
    init(seed: UInt64, rows: Int) {
        state = Mutex(State(random: SplitMix64(seed: seed)))
        self.rows = rows
    }

    /// Returns a person's data.
    func shelf(_ person: Person) -> Shelf {
        state.withLock { $0.shelves[person] ?? Shelf(rows: rows) }
    }

    /// Returns the number of times that a request made the mark.
    func count(_ mark: String) -> Int { state.withLock { $0.made[mark] ?? 0 } }

    /// The marks that were made more than once.
    var doubled: [String] {
        state.withLock { $0.made.filter { $0.value > 1 }.keys.sorted() }
    }

    /// Stops the failures.
    func recover() { state.withLock { $0.isWell = true } }

    /// Changes a person's data as another client would.
    func change(_ person: Person, _ body: (inout Shelf) -> Void) {
        state.withLock { body(&$0.shelves[person, default: Shelf(rows: rows)]) }
    }

    func answer(_ request: TransportRequest, of person: Person) -> TransportResponse {
        state.withLock { state in
            let chance = state.isWell ? 99 : Int.random(in: 0..<100, using: &state.random)
            if chance < 6 { return Self.refusal(503, "busy") }
            guard request.method != "GET" else { return read(request, of: person, state) }
            let key = request.headers["Idempotency-Key"] ?? ""
            if let answer = state.answers[key] { return answer }
            let answer = write(request, of: person, &state)
            state.answers[key] = answer
            // Applied, but not reported.
            return chance < 12 && answer.status < 300 ? Self.refusal(500, "unwell") : answer
        }
    }

    private func read(
        _ request: TransportRequest,
        of person: Person,
        _ state: State
    ) -> TransportResponse {
        let shelf = state.shelves[person] ?? Shelf(rows: rows)
        if let id = Self.entry(request) {
            let all = shelf.entries + shelf.dropped
            return Self.json(all.first { $0.id == id } ?? GameEntry(id: id))
        }
        guard request.url.path() == "/entries" else {
            return Self.json(shelf.boards[Self.board(request)] ?? GameBoard())
        }
        let items = URLComponents(string: request.url.absoluteString)?.queryItems ?? []
        func parameter(_ name: String) -> String? { items.first { $0.name == name }?.value }
        let limit = parameter("limit").flatMap { Int($0) } ?? 3
        let entries = shelf.entries(after: parameter("cursor"))
        let page = Array(entries.prefix(limit))
        return Self.json(
            ListPage(items: page, hasMore: entries.count > limit, nextCursor: page.last?.id)
        )
    }

    private func write(
        _ request: TransportRequest,
        of person: Person,
        _ state: inout State
    ) -> TransportResponse {
        let body = try? JSONDecoder().decode([String: String].self, from: request.body ?? Data())
        guard let mark = body?["mark"], !mark.contains(Deed.poison) else {
            return Self.refusal(422, "refused")
        }
        state.made[mark, default: 0] += 1
        var shelf = state.shelves[person] ?? Shelf(rows: rows)
        defer { state.shelves[person] = shelf }
        if let id = Self.entry(request) {
            if request.method == "DELETE" { shelf.drop(id) } else { shelf.mark(id, mark) }
            return TransportResponse(status: 204)
        }
        guard request.url.path() != "/entries" else {
            shelf.insert(GameEntry(id: mark), isLast: body?["end"] == "last")
            return TransportResponse(status: 204)
        }
        let board = Self.board(request)
        shelf.boards[board, default: GameBoard()].marks.append(mark)
        return Self.json(shelf.boards[board] ?? GameBoard())
    }

    private static func board(_ request: TransportRequest) -> Int {
        Int(request.url.lastPathComponent) ?? 0
    }

    private static func entry(_ request: TransportRequest) -> String? {
        let path = request.url.path()
        return path.hasPrefix("/entries/") ? String(path.dropFirst("/entries/".count)) : nil
    }

    private static func json(_ value: some Encodable) -> TransportResponse {
        TransportResponse(
            status: 200,
            headers: ["content-type": "application/json"],
            body: (try? JSONEncoder().encode(value)) ?? Data()
        )
    }

    private static func refusal(_ status: Int, _ title: String) -> TransportResponse {
        TransportResponse(
            status: status,
            headers: ["content-type": "application/problem+json"],
            body: Data(#"{"title":"\#(title)","status":\#(status)}"#.utf8)
        )
    }
}
