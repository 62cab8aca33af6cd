import Foundation
import SanguineModel

/// A page of the feed, to be written to the file.
struct RecordPage: Sendable {
    /// A record in its current state; without a value, it is deleted.
    struct Change: Sendable {
        let key: RecordKey
        let seq: Int64
        let value: RecordValue?
    }

    /// The reason why a page could not be read: a fault of the server, not of the disk.
    struct Unreadable: Error { let reason: String }

    let changes: [Change]
}

extension RecordPage {
    /// The collections of records that the server writes.
    private static let recordCollections: Set = ["$threads", "$messages"]

    /// Whether the changes of a collection are not records, but of data that every account has
    /// once: the balance, the quotas and the account.
    static func isSystem(_ collection: String) -> Bool {
        collection.hasPrefix("$") && !recordCollections.contains(collection)
    }

    /// The changes that are not records.
    var systemChanges: [RecordChange] {
        changes.compactMap { change in
            guard Self.isSystem(change.key.collection),
                let json = change.value.flatMap({ try? $0.json() }),
                let value = try? WireCoding.decode(JSONValue.self, from: json)
            else { return nil }
            let (collection, id) = (change.key.collection, change.key.id)
            return RecordChange(collection: collection, id: id, seq: change.seq, value: value)
        }
    }

    /// Returns the page without the changes after a number.
    func through(_ number: Int64) -> RecordPage {
        let isWhole = changes.allSatisfy { $0.seq <= number }
        return isWhole ? self : RecordPage(changes: changes.filter { $0.seq <= number })
    }
    /// Creates a page from decoded changes.
    init(_ changes: [RecordChange]) {
        self.changes = changes.map { change in
            var value: RecordValue?
            if !change.deleted, case .object(let fields) = change.value {
                value = RecordValue(received: fields)
            }
            let key = RecordKey(change.collection, change.id)
            return Change(key: key, seq: change.seq, value: value)
        }
    }
}

/// A page of the feed as received: each value stays the text that the server has sent, instead of
/// being decoded and encoded again.
struct ReceivedPage: FeedPage {
    let page: RecordPage
    let next: Int64
    let hasMore: Bool
    let reset: Bool

    static func decoded(from response: TransportResponse) throws(SanguineError) -> ReceivedPage {
        do throws(RecordPage.Unreadable) {
            return try ReceivedPage(response.body)
        } catch {
            var failure = DecodingFailure("PullAnswer: \(error.reason)")
            failure.response = response.short
            throw .decoding(failure)
        }
    }

    /// Reads the body of the response to a pull.
    ///
    /// - Throws: ``RecordPage/Unreadable``.
    init(_ body: Data) throws(RecordPage.Unreadable) {
        var reading = Reading()
        do throws(JSONParser.Fault) {
            let result = body.withUnsafeBytes { bytes -> Result<Reading, JSONParser.Fault> in
                let bytes = bytes.assumingMemoryBound(to: UInt8.self)
                return Result { () throws(JSONParser.Fault) in
                    try JSONParser.read(bytes) { (parser) throws(JSONParser.Fault) in
                        try Reading(&parser, bytes)
                    }
                }
            }
            reading = try result.get()
        } catch {
            throw RecordPage.Unreadable(reason: "it is not valid JSON: \(error)")
        }
        if let fault = reading.fault { throw fault }
        guard let changes = reading.changes else {
            throw RecordPage.Unreadable(reason: "'changes' is missing")
        }
        guard let next = reading.next, let hasMore = reading.hasMore else {
            throw RecordPage.Unreadable(reason: "'next' or 'hasMore' is missing")
        }
        (page, self.next, self.hasMore) = (RecordPage(changes: changes), next, hasMore)
        reset = reading.reset
    }

    /// The members of a page that were read.
    private struct Reading {
        var changes: [RecordPage.Change]?
        var next: Int64?
        var hasMore: Bool?
        var reset = false
        /// The fault of the first element that is not a change.
        var fault: RecordPage.Unreadable?

        init() {}

        init(
            _ parser: inout JSONParser,
            _ bytes: UnsafeBufferPointer<UInt8>
        ) throws(JSONParser.Fault) {
            let isObject = try parser.members { (parser, name) throws(JSONParser.Fault) in
                switch name {
                case "changes": try readChanges(&parser, bytes)
                case "next": next = try parser.scalar()?.integer
                case "hasMore": hasMore = try parser.scalar().map { $0 == .bool(true) }
                case "reset": reset = try parser.scalar() == .bool(true)
                default: _ = try parser.skipValue()
                }
            }
            if !isObject { _ = try parser.skipValue() }
        }

        private mutating func readChanges(
            _ parser: inout JSONParser,
            _ bytes: UnsafeBufferPointer<UInt8>
        ) throws(JSONParser.Fault) {
            var changes: [RecordPage.Change] = []
            changes.reserveCapacity(RecordLimits.pullChanges)
            let isArray = try parser.elements { (parser) throws(JSONParser.Fault) in
                let parts = try ChangeParts(&parser)
                do throws(RecordPage.Unreadable) {
                    changes.append(try parts.change(in: bytes))
                } catch {
                    fault = fault ?? error
                }
            }
            if isArray { self.changes = changes } else { _ = try parser.skipValue() }
        }
    }

    /// The members of a change, with the place of its value.
    private struct ChangeParts {
        var collection: String?
        var id: String?
        var seq: Int64?
        var isGone = false
        var value: Range<Int>?
        var isObject = false

        init(_ parser: inout JSONParser) throws(JSONParser.Fault) {
            isObject = try parser.members { (parser, name) throws(JSONParser.Fault) in
                switch name {
                case "collection": collection = try parser.scalar()?.string
                case "id": id = try parser.scalar()?.string
                case "seq": seq = try parser.scalar()?.integer
                case "deleted": isGone = try parser.scalar() == .bool(true)
                case "value": value = try parser.skipValue()
                default: _ = try parser.skipValue()
                }
            }
            if !isObject { _ = try parser.skipValue() }
        }

        func change(
            in bytes: UnsafeBufferPointer<UInt8>
        ) throws(RecordPage.Unreadable) -> RecordPage.Change {
            guard isObject else { throw RecordPage.Unreadable(reason: "a change is not an object") }
            guard let collection, let id = id.flatMap({ RecordID($0) }), let seq else {
                throw RecordPage.Unreadable(reason: "a change has no 'collection', 'id' or 'seq'")
            }
            var record: RecordValue?
            if !isGone, let value, bytes[value.lowerBound] == UInt8(ascii: "{") {
                record = RecordValue(json: Data(UnsafeBufferPointer(rebasing: bytes[value])))
            }
            return RecordPage.Change(key: RecordKey(collection, id), seq: seq, value: record)
        }
    }
}
