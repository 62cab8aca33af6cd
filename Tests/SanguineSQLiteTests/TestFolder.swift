import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import SanguineTesting

@testable import SanguineSQLite

/// A temporary folder that is removed with the object.
final class TestFolder: Sendable {
    let url = FileManager.default.temporaryDirectory.appending(path: "sanguine-test-\(UUID())")

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Creates the folder for its owner, as the storage would.
    func create() throws { try DataFolder(url).create() }

    func file(_ name: String) -> URL { url.appending(path: name) }

    /// Returns the permissions of a file in the folder, or of the folder itself.
    func mode(of name: String = "") throws -> Int? {
        let path = name.isEmpty ? url.path : file(name).path
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return (attributes[.posixPermissions] as? NSNumber)?.intValue
    }

    func size(of name: String) throws -> Int? {
        let attributes = try FileManager.default.attributesOfItem(atPath: file(name).path)
        return (attributes[.size] as? NSNumber)?.intValue
    }

    /// Replaces a file with a link to itself, which cannot be opened (`ELOOP`).
    func replaceByLoop(_ name: String) throws {
        try FileManager.default.removeItem(at: file(name))
        try FileManager.default.createSymbolicLink(
            atPath: file(name).path,
            withDestinationPath: file(name).path
        )
    }

    /// Copies the database as a crash at this moment would leave it.
    ///
    /// Call it while the writer cannot run. The `-shm` file does not survive a crash of the
    /// machine.
    func copyDatabase(to other: TestFolder) throws {
        let manager = FileManager.default
        try other.create()
        for name in ["sanguine.sqlite", "sanguine.sqlite-wal"]
        where manager.fileExists(atPath: file(name).path) {
            try manager.copyItem(at: file(name), to: other.file(name))
        }
    }
}

extension SQLiteStorage {
    /// Runs SQL on the writer's connection, outside of a transaction.
    func onWriter(_ sql: String) async throws {
        try await writer.run { connection throws(SQLFailure) in
            do {
                try connection.database.execute(sql: sql)
            } catch {
                throw SQLFailure(code: 0, message: "\(error)")
            }
        }
    }

    /// Reads a value on the writer's connection.
    func valueOnWriter(_ sql: String) async throws -> String? {
        try await writer.run { connection throws(SQLFailure) in
            try connection.statement(sql).first { $0.text(0) }
        }
    }

    /// Blocks the writer until the gate is opened.
    func blockWriter() async throws -> Gate {
        let gate = Gate()
        writer.enqueue(.exclusive { _ in gate.pass() })
        try await untilQueued(0)
        return gate
    }

    /// Returns when the given number of commands wait for the writer.
    func untilQueued(_ count: Int, fileID: String = #fileID, line: Int = #line) async throws {
        try await eventually("\(count) commands wait for the writer", fileID: fileID, line: line) {
            writer.queued == count
        }
    }

    /// Spends tokens as the authority does: balance, transfer and operation in one command.
    @discardableResult
    func spend(
        _ amount: Int64 = 1,
        from account: Identifier,
        key: String,
        reason: String = "a spend",
        whileDeciding: @escaping @Sendable () -> Void = {}
    ) async throws -> Int64 {
        let keys: [SanguineAuthority.Key] = [.balance(account), .operation(account, key: key)]
        let command = Command(keys: keys) { loaded throws(Problem) in
            whileDeciding()
            if loaded.operation(account, key: key) != nil {
                throw Problem(.operationInProgress, "Wait.")
            }
            var changes: [Change] = []
            var balance = loaded.balance(account) ?? .empty(account)
            if balance.head == 0 {
                balance.available = 1_000_000
                balance.head = 1
                changes.append(.append(.of(balance, .grant, 1_000_000, reason: "start")))
            }
            balance.available -= amount
            balance.head += 1
            balance.seq = balance.head
            changes.append(.append(.of(balance, .spend, amount, reason: reason)))
            changes.append(.put(.balance(balance)))
            let answer = StoredAnswer(status: 200, body: [], head: balance.head)
            let row = OperationRow(
                account: account,
                key: key,
                fingerprint: [1],
                state: .done(answer),
                at: .zero
            )
            changes.append(.put(.operation(row)))
            return Decision(balance.available, changes: changes)
        }
        return try await perform(command).get()
    }

    /// Stores a file of an account, and returns its id.
    @discardableResult
    func keep(_ bytes: [UInt8]) async throws -> BlobID {
        let id = BlobID(of: bytes)
        try await blobs.keep(bytes, as: id, at: .zero)
        let row = BlobRow(
            account: .fresh(),
            id: id,
            size: Int64(bytes.count),
            type: "image/png",
            createdAt: .zero
        )
        let command = Command(keys: []) { _ in Decision(true, changes: [.put(.blob(row))]) }
        _ = try await perform(command).get()
        return id
    }

    func available(_ account: Identifier) async throws -> Int64? {
        try await load([.balance(account)]).balance(account)?.available
    }
}

/// Blocks a thread until it is opened, for at most 30 seconds.
struct Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func pass() { _ = semaphore.wait(timeout: .now() + 30) }
    func open() { semaphore.signal() }
}

extension Timestamp {
    static let zero = Timestamp(millisecondsSince1970: 0)
    static let distant = Timestamp(millisecondsSince1970: 9_000_000_000_000)
}

extension Identifier {
    static func fresh() -> Identifier { Identifier(at: .zero) }
}

extension BalanceRow {
    static func empty(_ account: Identifier) -> BalanceRow {
        BalanceRow(account: account, head: 0, available: 0, held: 0, seq: 0, changedAt: .zero)
    }
}

extension Transfer {
    static func of(
        _ balance: BalanceRow,
        _ kind: LedgerEntry.Kind,
        _ amount: Int64,
        reason: String
    ) -> Transfer {
        Transfer(
            id: .fresh(),
            account: balance.account,
            seq: balance.head,
            kind: kind,
            amount: amount,
            availableAfter: balance.available,
            heldAfter: balance.held,
            reason: reason,
            at: .zero
        )
    }
}
