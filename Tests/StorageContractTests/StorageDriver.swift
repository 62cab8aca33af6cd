import Foundation
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import Testing

/// A storage driver under test.
enum StorageDriver: String, CaseIterable, CustomTestStringConvertible {
    case memory
    case sqlite

    var testDescription: String { rawValue }

    /// Passes an empty storage to the body and removes it afterwards.
    func withEmptyStorage<Value>(
        _ body: (any Storage) async throws -> Value
    ) async throws -> Value {
        switch self {
        case .memory:
            return try await body(MemoryStorage())
        case .sqlite:
            let folder = FileManager.default.temporaryDirectory
                .appending(path: "sanguine-contract-\(UUID())")
            defer { try? FileManager.default.removeItem(at: folder) }
            return try await SQLiteStorage.with(folder: folder) { try await body($0) }
        }
    }
}

extension Storage {
    /// Stores changes unconditionally.
    func store(_ changes: Change...) async throws {
        try await store(changes)
    }

    func store(_ changes: [Change]) async throws {
        let command = Command(keys: []) { _ throws(Problem) in Decision((), changes: changes) }
        try await perform(command).get()
    }

    /// Loads one row.
    func row(_ key: Key) async throws -> Row? {
        try await load([key]).row(key)
    }

    /// Adds to an account's balance and returns the new balance.
    func add(_ amount: Int64, to account: Identifier) async throws -> Int64 {
        let command = Command(keys: [.balance(account)]) { loaded throws(Problem) in
            var row = loaded.balance(account) ?? .sample(account)
            row.available += amount
            row.head += 1
            return Decision(row.available, changes: [.put(.balance(row))])
        }
        return try await perform(command).get()
    }
}

extension Loaded {
    func row(_ key: Key) -> Row? {
        switch key {
        case .account(let id): account(id).map(Row.account)
        case .balance(let id): balance(id).map(Row.balance)
        case .device(let id): device(id).map(Row.device)
        case .session(let id): session(id).map(Row.session)
        case .quota(let id, let name): quota(id, name: name).map(Row.quota)
        case .hold(let id): hold(id).map(Row.hold)
        case .operation(let id, let key): operation(id, key: key).map(Row.operation)
        case .record(let name): record(name).map(Row.record)
        case .feed(let id): feed(id).map(Row.feed)
        case .result(let key): result(key).map(Row.result)
        case .parts(let run, let first): parts(run, first: first).map(Row.parts)
        case .blob(let account, let id): blob(account, id).map(Row.blob)
        case .document(let kind, let id): document(kind, id).map(Row.document)
        case .lastAudit: lastAudit.map(Row.audit)
        case .indexes: indexes == IndexesRow() ? nil : .indexes(indexes)
        }
    }
}

extension Timestamp {
    /// Returns the time that many seconds after an arbitrary one.
    static func at(_ seconds: Int64) -> Timestamp {
        Timestamp(millisecondsSince1970: 1_790_000_000_000 + seconds * 1_000)
    }
}

extension Identifier {
    static func fresh() -> Identifier { Identifier(at: .at(0)) }

    /// Returns the id whose bytes are that number.
    static func numbered(_ number: UInt64) -> Identifier {
        let bytes = (0..<16).map {
            $0 < 8 ? 0 : UInt8(truncatingIfNeeded: number >> (56 - ($0 - 8) * 8))
        }
        return Identifier(bytes: bytes) ?? .fresh()
    }
}

extension BlobID {
    /// Returns the id of the content that the number represents.
    static func sample(_ number: Int) -> BlobID { BlobID(of: Array("\(number)".utf8)) }
}

// Rows for which a test specifies only the relevant fields.

extension BalanceRow {
    static func sample(
        _ account: Identifier,
        head: Int64 = 0,
        available: Int64 = 0,
        held: Int64 = 0
    ) -> BalanceRow {
        BalanceRow(
            account: account,
            head: head,
            available: available,
            held: held,
            seq: head,
            changedAt: .at(0)
        )
    }
}

extension ExpiringGrants {
    /// Two amounts.
    static var sample: ExpiringGrants {
        guard let grants = ExpiringGrants(text: "2@1000 3@2000") else {
            preconditionFailure("The text is valid.")
        }
        return grants
    }
}

extension AccountRow {
    static func sample(_ id: Identifier, email: String? = nil, seq: Int64 = 1) -> AccountRow {
        AccountRow(
            profile: Account(
                id: id,
                kind: .guest,
                email: email,
                timeZone: "Europe/Madrid",
                language: "es",
                createdAt: .at(0)
            ),
            seq: seq
        )
    }
}

extension SessionRow {
    static func sample(
        _ id: Identifier = .fresh(),
        of account: Identifier = .numbered(1),
        rotatedAt: Timestamp = .at(0),
        expiresAt: Timestamp = .at(1_000),
        endedAt: Timestamp? = nil
    ) -> SessionRow {
        SessionRow(
            id: id,
            account: account,
            generation: 0,
            rotatedAt: rotatedAt,
            expiresAt: expiresAt,
            endedAt: endedAt
        )
    }
}

extension HoldRow {
    static func sample(
        _ id: Identifier = .fresh(),
        of account: Identifier = .numbered(1),
        amount: Int64 = 1,
        expiresAt: Timestamp = .at(600),
        state: State = .open
    ) -> HoldRow {
        HoldRow(
            id: id,
            account: account,
            amount: amount,
            expiresAt: expiresAt,
            state: state,
            reason: "a call"
        )
    }
}

extension OperationRow {
    static func sample(
        _ account: Identifier,
        _ key: String,
        _ state: State = .running(hold: nil),
        at: Timestamp = .at(0)
    ) -> OperationRow {
        OperationRow(account: account, key: key, fingerprint: [1, 2, 3], state: state, at: at)
    }

    static func done(
        _ account: Identifier,
        _ key: String,
        head: Int64?,
        at: Timestamp = .at(0)
    ) -> OperationRow {
        let answer = StoredAnswer(status: 200, body: Array("{}".utf8), head: head)
        return sample(account, key, .done(answer), at: at)
    }
}

extension RecordName {
    static func sample(_ id: String, in scope: Identifier? = nil) -> RecordName {
        guard let id = RecordID(id) else { preconditionFailure("'\(id)' is not a record id.") }
        return RecordName("things", in: scope, id)
    }
}

extension RecordRow {
    static func sample(
        _ id: String,
        in scope: Identifier? = nil,
        of owner: Identifier = .numbered(1),
        seq: Int64 = 1,
        through: Int64? = nil,
        deletedAt: Timestamp? = nil,
        value: String = "{}"
    ) -> RecordRow {
        RecordRow(
            name: .sample(id, in: scope),
            owner: owner,
            seq: seq,
            through: through ?? seq,
            deletedAt: deletedAt,
            value: deletedAt == nil ? Array(value.utf8) : [],
            createdAt: .at(0),
            updatedAt: .at(seq)
        )
    }
}

extension Transfer {
    static func sample(
        of account: Identifier,
        _ kind: LedgerEntry.Kind = .grant,
        _ amount: Int64,
        available: Int64,
        held: Int64 = 0,
        seq: Int64 = 1
    ) -> Transfer {
        Transfer(
            id: .fresh(),
            account: account,
            seq: seq,
            kind: kind,
            amount: amount,
            availableAfter: available,
            heldAfter: held,
            reason: "a reason",
            at: .at(seq)
        )
    }
}
