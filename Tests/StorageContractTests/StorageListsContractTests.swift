import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for lists and sweeping.
@Suite("Storage contract: lists and sweep", .bounded)
struct StorageListsContractTests {
    @Test(arguments: StorageDriver.allCases)
    func `an account's transfers are listed newest first, page by page`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let (mine, other) = (Identifier.fresh(), Identifier.fresh())
            var written: [Transfer] = []
            for number in 1...7 as ClosedRange<Int64> {
                let transfer = Transfer.sample(of: mine, .grant, 1, available: number, seq: number)
                written.append(transfer)
                try await storage.store(
                    .append(transfer),
                    .append(.sample(of: other, .grant, 1, available: number, seq: number))
                )
            }
            var read: [NumberedTransfer] = []
            var pages: [Int] = []
            while true {
                let page = try await storage.transfers(
                    of: mine,
                    before: read.last?.number,
                    limit: 3
                )
                pages.append(page.count)
                if page.isEmpty { break }
                read += page
            }
            #expect(pages == [3, 3, 1, 0])
            #expect(read.map(\.transfer) == written.reversed())
            #expect(zip(read, read.dropFirst()).allSatisfy { $0.number > $1.number })
            #expect(try await storage.transfers(of: .fresh(), before: nil, limit: 3) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a transfer of any kind is read as it was written`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            for kind in LedgerEntry.Kind.allCases {
                let account = Identifier.fresh()
                let transfer = Transfer(
                    id: .fresh(),
                    account: account,
                    seq: .max,
                    kind: kind,
                    amount: .max,
                    availableAfter: .min,
                    heldAfter: .max,
                    reason: "día 🩸 \u{0}",
                    at: Timestamp(millisecondsSince1970: .min),
                    function: "ask 🩸"
                )
                try await storage.store(.append(transfer))
                let read = try await storage.transfers(of: account, before: nil, limit: 1)
                #expect(read.map(\.transfer) == [transfer])
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `transfers of one command are in its order`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            let release = Transfer.sample(of: account, .release, 5, available: 5)
            let capture = Transfer.sample(of: account, .capture, 2, available: 3)
            try await storage.store(.append(release), .append(capture))
            let read = try await storage.transfers(of: account, before: nil, limit: 10)
            #expect(read.map(\.transfer) == [capture, release])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the transfers of all accounts are listed in order, in pages`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let accounts = (0..<3).map { _ in Identifier.fresh() }
            let all = (0..<9).map { number in
                Transfer.sample(of: accounts[number % 3], .grant, Int64(number), available: 0)
            }
            for transfer in all { try await storage.store(.append(transfer)) }
            let first = try await storage.transfers(after: 0, limit: 5)
            let rest = try await storage.transfers(after: first.last?.number ?? 0, limit: 5)
            #expect((first + rest).map(\.transfer) == all)
            #expect(try await storage.transfers(after: rest.last?.number ?? 0, limit: 5) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `accounts with expiring grants are listed, the soonest first`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let ids = (1...3).map { Identifier.numbered(UInt64($0)) }
            for (id, text) in zip(ids, ["5@3000", "5@1000 5@9000", ""]) {
                var row = BalanceRow.sample(id, available: 10)
                row.grants = ExpiringGrants(text: text) ?? row.grants
                try await storage.store(.put(.balance(row)))
            }
            func due(_ milliseconds: Int64, _ limit: Int = 10) async throws -> [Identifier] {
                let moment = Timestamp(millisecondsSince1970: milliseconds)
                return try await storage.accounts(withGrantsExpiringBy: moment, limit: limit)
            }
            #expect(try await due(999) == [])
            #expect(try await due(1_000) == [ids[1]])
            #expect(try await due(9_000) == [ids[1], ids[0]])
            #expect(try await due(9_000, 1) == [ids[1]])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `active accounts with ending plans are listed, the soonest first`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let ids = (1...6).map { Identifier.numbered(UInt64($0)) }
            let ends: [Timestamp?] = [.at(30), .at(10), nil, .at(10), .at(5), .at(5)]
            for (id, end) in zip(ids, ends) {
                var row = AccountRow.sample(id)
                row.profile.plan = id == ids[4] ? .free : .premium
                row.planExpiresAt = end
                row.state = id == ids[5] ? .merged(into: ids[0]) : .active
                try await storage.store(.put(.account(row)))
            }
            func due(_ moment: Timestamp, _ limit: Int = 10) async throws -> [Identifier] {
                try await storage.accounts(withPlansEndingBy: moment, limit: limit).map(\.id)
            }
            #expect(try await due(.at(9)) == [])
            #expect(try await due(.at(10)) == [ids[1], ids[3]])
            #expect(try await due(.at(99)) == [ids[1], ids[3], ids[0]])
            #expect(try await due(.at(99), 1) == [ids[1]])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `open holds are listed by expiry, up to the given time`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let holds = [30, 10, 20, 20, 40].enumerated().map { index, expiry in
                HoldRow.sample(.numbered(UInt64(10 - index)), expiresAt: .at(expiry))
            }
            try await storage.store(holds.map { .put(.hold($0)) })
            try await storage.store(
                .put(.hold(.sample(.numbered(20), expiresAt: .at(1), state: .captured(1)))),
                .put(.hold(.sample(.numbered(21), expiresAt: .at(1), state: .released))),
                .put(.hold(.sample(.numbered(22), expiresAt: .at(1), state: .expired)))
            )
            let due = try await storage.openHolds(expiringBy: .at(30), limit: 10)
            #expect(due == [holds[1], holds[3], holds[2], holds[0]])
            let first = try await storage.openHolds(expiringBy: .at(30), limit: 2)
            #expect(first == [holds[1], holds[3]])
            var settled = holds[1]
            settled.state = .released
            try await storage.store(.put(.hold(settled)), .delete(.hold(holds[3].id)))
            let left = try await storage.openHolds(expiringBy: .at(30), limit: 10)
            #expect(left == [holds[2], holds[0]])
            #expect(try await storage.openHolds(expiringBy: .at(19), limit: 10) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `running operations are listed by key, page by page`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let accounts = [1, 2, 3].map(Identifier.numbered)
            var running: [OperationRow] = []
            for account in accounts {
                for key in ["", "B", "a", "a1", "~"] {
                    running.append(.sample(account, key, .running(hold: .fresh())))
                }
                try await storage.store(
                    .put(.operation(.done(account, "c", head: 1))),
                    .put(.operation(.sample(account, "d", .forgotten)))
                )
            }
            try await storage.store(running.shuffled().map { .put(.operation($0)) })
            var read: [OperationRow] = []
            while true {
                let position = read.last.map { OperationPosition(account: $0.account, key: $0.key) }
                let page = try await storage.runningOperations(after: position, limit: 4)
                if page.isEmpty { break }
                read += page
            }
            #expect(read == running)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an account is found only by its address`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let ana = AccountRow.sample(.numbered(1), email: "ana@example.org")
            try await storage.store(
                .put(.account(ana)),
                .put(.account(.sample(.numbered(2))))
            )
            #expect(try await storage.account(email: "ana@example.org") == ana)
            #expect(try await storage.account(email: "ben@example.org") == nil)
            var moved = ana
            moved.profile.email = "ana@example.net"
            try await storage.store(.put(.account(moved)))
            #expect(try await storage.account(email: "ana@example.org") == nil)
            #expect(try await storage.account(email: "ana@example.net") == moved)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a limit of zero or less returns nothing`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.numbered(1)
            try await storage.store(
                .put(.hold(.sample())),
                .put(.operation(.sample(account, "a"))),
                .put(.session(.sample(endedAt: .at(1)))),
                .append(.sample(of: account, .grant, 1, available: 1))
            )
            let horizon = SweepHorizon(answers: .at(99), sessions: .at(9_999), holds: .at(99))
            for limit in [0, -1, .min] {
                #expect(try await storage.openHolds(expiringBy: .at(9_999), limit: limit) == [])
                #expect(try await storage.runningOperations(after: nil, limit: limit) == [])
                #expect(try await storage.transfers(of: account, before: nil, limit: limit) == [])
                #expect(try await storage.sweep(horizon, limit: limit) == 0)
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a sweep keeps the keys of charged operations and drops other answers`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.numbered(1)
            let rows: [OperationRow] = [
                .done(account, "charged", head: 4, at: .at(1)),
                .done(account, "free", head: nil, at: .at(1)),
                .done(account, "young", head: 4, at: .at(10)),
                .sample(account, "running", .running(hold: nil), at: .at(1)),
                .sample(account, "forgotten", .forgotten, at: .at(1)),
            ]
            try await storage.store(rows.map { .put(.operation($0)) })
            let horizon = SweepHorizon(answers: .at(10), sessions: .at(0), holds: .at(0))
            #expect(try await storage.sweep(horizon, limit: 100) == 2)
            var charged = rows[0]
            charged.state = .forgotten
            let expected: [OperationRow?] = [charged, nil, rows[2], rows[3], rows[4]]
            for (row, left) in zip(rows, expected) {
                let key = Key.operation(account, key: row.key)
                #expect(try await storage.row(key) == left.map(Row.operation))
            }
            #expect(try await storage.sweep(horizon, limit: 100) == 0)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a sweep removes expired sessions and settled holds`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let sessions: [(SessionRow, isOver: Bool)] = [
                (.sample(expiresAt: .at(9)), true),
                (.sample(expiresAt: .at(10)), false),
                (.sample(expiresAt: .at(99), endedAt: .at(9)), true),
                (.sample(expiresAt: .at(99), endedAt: .at(10)), false),
                (.sample(expiresAt: .at(9), endedAt: .at(9)), true),
            ]
            let holds: [(HoldRow, isOver: Bool)] = [
                (.sample(expiresAt: .at(19), state: .captured(1)), true),
                (.sample(expiresAt: .at(19), state: .released), true),
                (.sample(expiresAt: .at(19), state: .expired), true),
                (.sample(expiresAt: .at(19), state: .open), false),
                (.sample(expiresAt: .at(20), state: .released), false),
            ]
            try await storage.store(sessions.map { .put(.session($0.0)) })
            try await storage.store(holds.map { .put(.hold($0.0)) })
            let horizon = SweepHorizon(answers: .at(0), sessions: .at(10), holds: .at(20))
            #expect(try await storage.sweep(horizon, limit: 100) == 6)
            for (row, isOver) in sessions {
                #expect(try await storage.row(.session(row.id)) == (isOver ? nil : .session(row)))
            }
            for (row, isOver) in holds {
                #expect(try await storage.row(.hold(row.id)) == (isOver ? nil : .hold(row)))
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a sweep drops at most its limit of each kind, and the rest in the next one`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            for number in 0..<5 as Range<UInt64> {
                try await storage.store(
                    .put(.operation(.done(.numbered(number), "a", head: 1))),
                    .put(.session(.sample(.numbered(number), expiresAt: .at(0)))),
                    .put(.hold(.sample(.numbered(number), expiresAt: .at(0), state: .expired)))
                )
            }
            let horizon = SweepHorizon(answers: .at(1), sessions: .at(1), holds: .at(1))
            var dropped: [Int] = []
            for _ in 0..<4 { dropped.append(try await storage.sweep(horizon, limit: 2)) }
            #expect(dropped == [6, 6, 3, 0])
        }
    }
}
