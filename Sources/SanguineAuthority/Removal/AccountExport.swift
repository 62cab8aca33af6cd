import Foundation
package import SanguineModel
import Synchronization

/// Everything that is stored about an account, as JSON Lines.
///
/// Each line is an object with the member `type`. The first line, of type `export`, has the number
/// of the account's feed and its epoch at the beginning; the last one, of type `end`, the number at
/// the end and the count of lines.
///
/// Each page is read from one snapshot of the storage, and the pages follow each other. If the two
/// numbers of the feed are equal, nothing of the account's feed changed during the export, and all
/// lines are as of one moment. Otherwise a record that was changed in the meantime appears in its
/// old or in its new form, or in both, and the one with the larger `seq` is the newer one.
///
/// Only one page is in memory at a time.
///
/// Mutable state: `state`, guarded by its mutex; the reader requests one page at a time.
final class AccountExport: Sendable {
    /// The parts, in the order of the lines.
    enum Part: Hashable, Sendable {
        case beginning
        case rows(AccountRowsQuery.Kind)
        case records
        case ledger
        case end
        case over

        var next: Part {
            switch self {
            case .beginning: .rows(.devices)
            case .rows(.devices): .rows(.sessions)
            case .rows(.sessions): .rows(.quotas)
            case .rows(.quotas): .rows(.openHolds)
            case .rows(.openHolds): .rows(.documents)
            case .rows(.documents): .rows(.blobs)
            case .rows(.blobs): .records
            case .records: .rows(.operations)
            case .rows(.operations), .rows(.results): .ledger
            case .ledger: .end
            case .end, .over: .over
            }
        }
    }

    private struct State {
        var part = Part.beginning
        /// The key of the last row of the part; `nil` before the first one.
        var last: Key?
        /// The number of the last record or transfer of the part.
        var number: Int64?
        var lines: Int64 = 0
    }

    /// The number of rows in a page.
    static let pageRows = 100
    /// The number of operations in a page, whose answers may be large.
    static let pageAnswers = 10
    /// The size of records after which a page ends.
    static let pageBytes = 256 << 10

    private let account: Identifier
    private let authority: Authority
    private let state = Mutex(State())

    init(of account: Identifier, from authority: Authority) {
        self.account = account
        self.authority = authority
    }

    /// Returns the next lines; `nil` at the end.
    ///
    /// - Throws: `not_found` if the account is gone, or the failure to read.
    func next() async throws(Problem) -> [UInt8]? {
        var now = state.withLock { $0 }
        while now.part != .over {
            let lines = try await page(&now)
            now.lines += Int64(lines.count)
            state.withLock { [now] in $0 = now }
            if !lines.isEmpty { return lines.flatMap { $0.bytes + [UInt8(ascii: "\n")] } }
        }
        return nil
    }

    private func page(_ now: inout State) async throws(Problem) -> [ExportLine] {
        switch now.part {
        case .beginning:
            now.part = now.part.next
            return try await beginning()
        case .rows(let kind):
            return try await rows(kind, &now)
        case .records:
            return try await records(&now)
        case .ledger:
            return try await ledger(&now)
        case .end:
            now.part = .over
            let head = try await authority.account(account).head
            return [
                ExportLine("end", ["head": .integer(head), "lines": .integer(now.lines + 1)])
            ]
        case .over:
            return []
        }
    }

    private func beginning() async throws(Problem) -> [ExportLine] {
        let (profile, head) = try await authority.account(account)
        let balance = try await authority.balance(account)
        return [
            ExportLine(
                "export",
                [
                    "account": .string(account.description),
                    "at": .string(authority.clock.now().description),
                    "epoch": .string(authority.storage.epoch.text), "head": .integer(head),
                ]
            ),
            try ExportLine("account", encoding: profile),
            try ExportLine("balance", encoding: balance),
        ]
    }

    private func rows(
        _ kind: AccountRowsQuery.Kind,
        _ now: inout State
    ) async throws(Problem) -> [ExportLine] {
        let limit = kind == .operations ? Self.pageAnswers : Self.pageRows
        let query = AccountRowsQuery(kind, of: account, after: now.last, limit: limit)
        let rows = try await authority.read { storage throws(StorageError) in
            try await storage.rows(query)
        }
        now.last = rows.last?.key
        if rows.count < limit { (now.part, now.last) = (now.part.next, nil) }
        // A page of answers takes long to encode.
        return try await WireBody.perform(ifLong: kind == .operations, for: account) {
            () throws(Problem) in
            var lines: [ExportLine] = []
            for row in rows {
                if let line = try ExportLine(row) { lines.append(line) }
            }
            return lines
        }
    }

    private func records(_ now: inout State) async throws(Problem) -> [ExportLine] {
        let query = FeedQuery(
            of: account,
            after: now.number ?? 0,
            limit: Self.pageRows,
            bytes: Self.pageBytes,
            liveOnly: true
        )
        let slice = try await authority.read { storage throws(StorageError) in
            try await storage.feed(query)
        }
        now.number = slice.records.last?.seq ?? now.number
        if !slice.hasMore { (now.part, now.number) = (now.part.next, nil) }
        return await WireBody.perform(ifLong: true, for: account) {
            slice.records.map(ExportLine.init(record:))
        }
    }

    private func ledger(_ now: inout State) async throws(Problem) -> [ExportLine] {
        let found = try await authority.transfers(
            of: account,
            before: now.number,
            limit: Self.pageRows
        )
        now.number = found.last?.number ?? now.number
        if found.count < Self.pageRows { (now.part, now.number) = (now.part.next, nil) }
        var lines: [ExportLine] = []
        for entry in found {
            lines.append(try ExportLine("ledger", encoding: entry.transfer.entry))
        }
        return lines
    }
}

/// One line of an export.
struct ExportLine: Sendable {
    let bytes: [UInt8]

    init(_ type: String, _ members: [String: JSONValue]) {
        var members = members
        members["type"] = .string(type)
        bytes = ResponseEncoder.encode(JSONValue.object(members))
    }

    /// Creates the line of a record.
    init(record row: RecordRow) {
        self.init(
            "record",
            [
                "collection": .string(row.name.collection), "id": .string(row.name.id.text),
                "seq": .integer(row.seq),
                "createdAt": .string(row.createdAt.description),
                "updatedAt": .string(row.updatedAt.description),
                "value": ExportLine.json(row.value),
            ]
        )
    }

    /// Creates the line of a value whose JSON is an object.
    init(_ type: String, encoding value: some Encodable) throws(Problem) {
        guard case .object(let members)? = try? JSONValue(stored: ResponseEncoder.encode(value))
        else {
            throw Problem(.internalFault, "Start the export again.")
        }
        self.init(type, members)
    }

    /// Creates the line of a row; `nil` for a row that is not exported.
    init?(_ row: Row) throws(Problem) {
        switch row {
        case .device(let row):
            // Without its secret's hash.
            self.init(
                "device",
                ["id": .string(row.id), "createdAt": .string(row.createdAt.description)]
            )
        case .session(let row):
            try self.init("session", encoding: row.info(current: nil))
        case .quota(let row):
            self.init(
                "quota",
                [
                    "name": .string(row.name), "day": .string(row.day.description),
                    "used": .integer(row.used), "resetsAt": .string(row.resetsAt.description),
                ]
            )
        case .hold(let row):
            self.init(
                "hold",
                [
                    "id": .string(row.id.description), "amount": .integer(row.amount),
                    "expiresAt": .string(row.expiresAt.description),
                    "reason": .string(row.reason),
                ]
            )
        case .blob(let row):
            try self.init("file", encoding: ExportedFile(row))
        case .document(let row):
            guard let members = Self.members(of: row) else { return nil }
            self.init(row.kind.rawValue, members)
        case .operation(let row):
            self.init("operation", Self.members(of: row))
        default: return nil
        }
    }

    /// Returns stored JSON as a value, or as text if it is not JSON.
    static func json(_ bytes: [UInt8]) -> JSONValue {
        (try? JSONValue(stored: bytes)) ?? .string(String(decoding: bytes, as: UTF8.self))
    }

    /// Returns the members of a document that are the person's data and no secrets.
    private static func members(of row: DocumentRow) -> [String: JSONValue]? {
        switch row.kind {
        case .login, .purchase:
            guard case .object(var members) = json(row.body) else { return nil }
            members["passwordHash"] = nil
            members["type"] = nil
            return members
        default: return nil
        }
    }

    private static func members(of row: OperationRow) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "key": .string(row.key), "at": .string(row.at.description),
        ]
        switch row.state {
        case .running: members["state"] = "running"
        case .done(let answer):
            members["state"] = "done"
            members["status"] = .integer(Int64(answer.status))
            members["answer"] = json(answer.body)
        case .forgotten: members["state"] = "forgotten"
        case .pushed(let head, let refusal):
            members["state"] = refusal == nil ? "applied" : "refused"
            members["head"] = .integer(head)
            members["problem"] = refusal.map(json)
        }
        return members
    }
}

/// A file in an export: its facts, and the path at which the owner can read it.
private struct ExportedFile: Encodable {
    let id: String
    let size: Int64
    let contentType: String
    let width: Int64?
    let height: Int64?
    let createdAt: Timestamp
    let path: String

    init(_ row: BlobRow) {
        id = row.id.description
        size = row.size
        contentType = row.type
        width = row.width
        height = row.height
        createdAt = row.createdAt
        path = "/v1/blobs/\(row.id)"
    }
}

extension Authority {
    /// Works like ``exportAccount(_:)`` for an administrator, with an entry in the audit log.
    package func exportAccount(
        _ account: Identifier,
        by note: AuditNote
    ) async throws(Problem) -> WireResponse {
        let answer = try await exportAccount(account)
        try await record(note)
        return answer
    }

    /// Returns an export of an account, whose first page is read at once.
    ///
    /// - Throws: `not_found` if the account does not exist or was deleted.
    func exportAccount(_ account: Identifier) async throws(Problem) -> WireResponse {
        let row = try await read { storage throws(StorageError) in
            try await storage.load([.account(account)])
        }
        .account(account)
        guard let row, row.state != .deleted else { throw .noAccount }
        let export = AccountExport(of: account, from: self)
        let first = try await export.next()
        var answer = WireResponse(
            status: 200,
            fields: [(.contentType, "application/jsonl"), (.cacheControl, "private, no-store")]
        )
        let beginning = OneShotBytes(first)
        answer.stream = WireStream(
            next: {
                if let bytes = beginning.take() { return bytes }
                // An export that breaks off lacks its last line, of type `end`.
                return try? await export.next()
            },
            close: {}
        )
        return answer
    }
}

/// Bytes that are returned once.
///
/// Mutable state: `bytes`, guarded by its mutex.
private final class OneShotBytes: Sendable {
    private let bytes: Mutex<[UInt8]?>

    init(_ bytes: [UInt8]?) { self.bytes = Mutex(bytes) }

    func take() -> [UInt8]? {
        bytes.withLock { bytes in
            defer { bytes = nil }
            return bytes
        }
    }
}
