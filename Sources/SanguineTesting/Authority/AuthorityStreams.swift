import Foundation
import Sanguine
import SanguineModel

/// The live connections, and what is still to be written to them.
///
/// Invariant: what a connection is told is told in the order of the feed, each change once.
struct AuthorityStreams {
    /// Something to write, outside of the lock.
    struct Delivery {
        let stream: TransportStream
        let bytes: Data
    }

    private struct Reader {
        // The reader's end owns the stream: released, it ends the connection.
        weak var stream: TransportStream?
        let account: Identifier
        var question: AccountLedger.Question
    }

    private var readers: [UInt64: Reader] = [:]
    private var untold: [Delivery] = []
    private var isTelling = false

    var count: Int { readers.count }

    /// Adds a connection, and has it told what is new since its place.
    mutating func add(
        _ number: UInt64,
        _ stream: TransportStream,
        of account: Identifier,
        since: Int64,
        _ ledger: AccountLedger
    ) {
        let question = AccountLedger.Question(since: since, limit: .max)
        readers[number] = Reader(stream: stream, account: account, question: question)
        untold.append(Delivery(stream: stream, bytes: Data("retry: 2000\n\n".utf8)))
        advance(number, ledger)
    }

    mutating func remove(_ number: UInt64) { readers[number] = nil }

    mutating func removeAll() -> [TransportStream] {
        defer { readers = [:] }
        return readers.values.compactMap(\.stream)
    }

    /// Has all connections of an account told what is new.
    mutating func changed(_ account: Identifier, _ ledger: AccountLedger) {
        for number in readers.keys.sorted() where readers[number]?.account == account {
            advance(number, ledger)
        }
    }

    mutating func sayAll(_ text: String) {
        for number in readers.keys.sorted() {
            guard let stream = readers[number]?.stream else { continue }
            untold.append(Delivery(stream: stream, bytes: Data(text.utf8)))
        }
    }

    private mutating func advance(_ number: UInt64, _ ledger: AccountLedger) {
        guard let reader = readers[number], let stream = reader.stream else {
            readers[number] = nil
            return
        }
        let answer = ledger.page(reader.question)
        readers[number]?.question.since = answer.next
        readers[number]?.question.horizon = ledger.horizon
        let bytes = Self.events(answer, after: reader.question.since)
        if !bytes.isEmpty { untold.append(Delivery(stream: stream, bytes: bytes)) }
    }

    private static func events(_ answer: PullAnswer, after position: Int64) -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        var bytes = Data()
        if answer.reset { bytes += Data("event: reset\nid: 0\ndata: {}\n\n".utf8) }
        for change in answer.changes {
            guard let json = try? encoder.encode(LiveChange(change, head: answer.head)) else {
                continue
            }
            bytes += Data("event: change\nid: \(change.seq)\ndata: ".utf8) + json
            bytes += Data("\n\n".utf8)
        }
        let last = answer.changes.last?.seq ?? (answer.reset ? 0 : position)
        if answer.next > last { bytes += Data("id: \(answer.next)\n\n".utf8) }
        return bytes
    }

    // MARK: - Telling

    /// Begins to tell; returns whether the caller must, because nobody does.
    mutating func begin() -> Bool {
        guard !isTelling, !untold.isEmpty else { return false }
        isTelling = true
        return true
    }

    /// The next to tell; at the end somebody else may begin.
    mutating func next() -> Delivery? {
        isTelling = !untold.isEmpty
        return untold.isEmpty ? nil : untold.removeFirst()
    }
}
