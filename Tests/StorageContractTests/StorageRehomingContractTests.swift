import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for rows that are found and moved by their owner.
@Suite("Storage contract: owners", .bounded)
struct StorageRehomingContractTests {
    private let guest = Identifier.numbered(1)
    private let account = Identifier.numbered(2)

    private func device(_ id: String, of account: Identifier) -> Change {
        .put(.device(DeviceRow(id: id, secretHash: [1], account: account, createdAt: .at(0))))
    }

    private func result(_ question: UInt8, of account: Identifier) -> ResultRow {
        let key = [UInt8](repeating: question, count: ResultRow.questionBytes) + account.bytes
        return ResultRow(
            key: key,
            account: account,
            function: "f",
            output: [question],
            madeAt: .at(Int64(question)),
            expiresAt: .at(9)
        )
    }

    private func decide<Value: Sendable>(
        _ storage: any Storage,
        _ body: @escaping @Sendable (any RecordReader) throws -> Value
    ) async throws -> Value {
        let command = Command<Result<Value, any Error>>(
            keys: [],
            reading: { _, reader throws(Problem) in Decision(Result { try body(reader) }) }
        )
        return try await storage.perform(command).get().get()
    }

    @Test(arguments: StorageDriver.allCases)
    func `devices, operations and cached answers move to the account`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await storage.store(
                device("d1", of: guest),
                device("d2", of: guest),
                device("other", of: .numbered(3)),
                .put(.operation(.done(guest, "done", head: 4))),
                .put(.operation(.done(guest, "free", head: nil))),
                .put(.operation(.sample(guest, "running", .running(hold: .numbered(9))))),
                .put(.operation(.sample(guest, "pushed", .pushed(head: 3, refusal: [1])))),
                .put(.operation(.sample(guest, "gone", .forgotten))),
                .put(.result(result(1, of: guest))),
                .rehome(Rehoming(of: guest, to: account, head: 70))
            )
            for id in ["d1", "d2"] {
                let row = try await storage.load([.device(id)]).device(id)
                #expect(row?.account == account && row?.era == DeviceRow.closed)
            }
            let other = try await storage.load([.device("other")]).device("other")
            #expect(other?.account == .numbered(3))
            let rows: [OperationRow] = [
                .done(account, "done", head: 70), .done(account, "free", head: nil),
                .sample(account, "running", .running(hold: .numbered(9))),
                .sample(account, "pushed", .pushed(head: 70, refusal: [1])),
                .sample(account, "gone", .forgotten),
            ]
            for row in rows {
                let key = Key.operation(account, key: row.key)
                #expect(try await storage.row(key) == .operation(row))
                #expect(try await storage.row(.operation(guest, key: row.key)) == nil)
            }
            let running = try await storage.runningOperations(after: nil, limit: 9)
            #expect(running.map(\.account) == [account])
            let moved = result(1, of: account)
            #expect(try await storage.row(.result(moved.key)) == .result(moved))
            #expect(try await storage.row(.result(result(1, of: guest).key)) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `rows that the account has as well remain the account's`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            var own = result(1, of: account)
            own.output = [99]
            try await storage.store(
                .put(.operation(.done(guest, "key", head: 4))),
                .put(.operation(.done(account, "key", head: 5))),
                .put(.result(result(1, of: guest))),
                .put(.result(own)),
                .rehome(Rehoming(of: guest, to: account, head: 70))
            )
            let theirs = try await storage.row(.operation(guest, key: "key"))
            #expect(theirs == .operation(.done(guest, "key", head: 4)))
            let kept = try await storage.row(.operation(account, key: "key"))
            #expect(kept == .operation(.done(account, "key", head: 5)))
            #expect(try await storage.row(.result(own.key)) == .result(own))
            #expect(try await storage.row(.result(result(1, of: guest).key)) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the rows of an owner are found, and no others`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let guest = guest
            for owner in [guest, account] {
                let number = owner == guest ? 10 : 20 as UInt64
                let blob = BlobRow(
                    account: owner,
                    id: .sample(1),
                    size: 1,
                    type: "image/png",
                    createdAt: .at(0)
                )
                let document = DocumentRow(kind: .mail, id: "\(number)", account: owner, body: [1])
                try await storage.store(
                    .put(.blob(blob)),
                    .put(.hold(.sample(.numbered(number), of: owner))),
                    .put(.hold(.sample(.numbered(number + 1), of: owner, state: .released))),
                    .put(.session(.sample(.numbered(number), of: owner))),
                    .put(.session(.sample(.numbered(number + 1), of: owner, endedAt: .at(1)))),
                    .put(.document(document)),
                    .put(.operation(.sample(owner, "running"))),
                    .put(.operation(.done(owner, "done", head: 1)))
                )
            }
            let owned = try await decide(storage) { try $0.ownedRows(of: guest) }
            #expect(owned.blobs.map(\.account) == [guest])
            #expect(owned.openHolds.map(\.id) == [.numbered(10)])
            #expect(owned.sessions.map(\.id) == [.numbered(10)])
            #expect(owned.documents.map(\.id) == ["10"])
            #expect(owned.runningKeys == ["running"])
            let keys = try await decide(storage) { reader in
                try ["done", "running", "none"].map { try reader.hasOperation(guest, key: $0) }
            }
            #expect(keys == [true, true, false])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the live records of an owner are read in pages`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let (guest, account) = (guest, account)
            try await storage.store(
                .put(.record(.sample("b", in: guest, of: guest, seq: 2))),
                .put(.record(.sample("a", of: guest, seq: 5))),
                .put(.record(.sample("dead", in: guest, of: guest, seq: 6, deletedAt: .at(6)))),
                .put(.record(.sample("c", in: guest, of: guest, seq: 9))),
                .put(.record(.sample("other", in: account, of: account, seq: 3)))
            )
            func page(_ seq: Int64, _ limit: Int) async throws -> [Int64] {
                try await decide(storage) { reader in
                    try reader.liveRecords(of: guest, after: seq, limit: limit).map(\.seq)
                }
            }
            #expect(try await page(0, 2) == [2, 5])
            #expect(try await page(5, 2) == [9])
            #expect(try await page(9, 2) == [])
            #expect(try await page(0, 0) == [])
        }
    }
}
