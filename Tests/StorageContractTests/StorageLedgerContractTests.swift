import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for verifying the ledger: it finds every planted fault.
@Suite("Storage contract: ledger", .bounded)
struct StorageLedgerContractTests {
    /// Rows that a correct authority would never store, and a word of the expected report.
    struct Fault: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let finding: String
        let changes: [Change]
    }

    private static let account = Identifier.numbered(5)

    /// A grant of 10 and a hold of 4, with the resulting balance and hold.
    private static let sound: [Change] = [
        .append(.sample(of: account, .grant, 10, available: 10, seq: 1)),
        .append(.sample(of: account, .hold, 4, available: 6, held: 4, seq: 2)),
        .put(.hold(.sample(.numbered(50), of: account, amount: 4))),
        .put(.balance(.sample(account, head: 2, available: 6, held: 4))),
    ]

    static let faults = [
        Fault(
            testDescription: "a balance that is too high",
            finding: "the balance is 7",
            changes: [.put(.balance(.sample(account, head: 2, available: 7, held: 4)))]
        ),
        Fault(
            testDescription: "a held amount that is too low",
            finding: "held 3",
            changes: [.put(.balance(.sample(account, head: 2, available: 6, held: 3)))]
        ),
        Fault(
            testDescription: "a head before the last transfer",
            finding: "beyond the head 1",
            changes: [.put(.balance(.sample(account, head: 1, available: 6, held: 4)))]
        ),
        Fault(
            testDescription: "no balance",
            finding: "no balance",
            changes: [.delete(.balance(account))]
        ),
        Fault(
            testDescription: "a hold that was lost",
            finding: "open holds sum to 0",
            changes: [.delete(.hold(.numbered(50)))]
        ),
        Fault(
            testDescription: "a hold without a transfer",
            finding: "open holds sum to 5",
            changes: [.put(.hold(.sample(.numbered(51), of: account, amount: 1)))]
        ),
        Fault(
            testDescription: "a transfer that the balance misses",
            finding: "entries sum to 5",
            changes: [.append(.sample(of: account, .spend, 1, available: 5, held: 4, seq: 2))]
        ),
        Fault(
            testDescription: "running balances that do not match",
            finding: "states 9",
            changes: [.append(.sample(of: account, .spend, 1, available: 9, held: 4, seq: 2))]
        ),
        Fault(
            testDescription: "an overspend",
            finding: "takes the balance to -1",
            changes: [
                .append(.sample(of: account, .spend, 7, available: -1, held: 4, seq: 2)),
                .put(.balance(.sample(account, head: 2, available: -1, held: 4))),
            ]
        ),
        Fault(
            testDescription: "feed numbers that go back",
            finding: "feed number 1 after 2",
            changes: [
                .append(.sample(of: account, .grant, 0, available: 6, held: 4, seq: 1))
            ]
        ),
        Fault(
            testDescription: "a negative amount",
            finding: "negative amount",
            changes: [
                .append(.sample(of: account, .grant, .min, available: 6, held: 4, seq: 2))
            ]
        ),
        Fault(
            testDescription: "an amount that overflows",
            finding: "overflows 64 bits",
            changes: [
                .append(.sample(of: account, .grant, .max, available: 6, held: 4, seq: 2))
            ]
        ),
        Fault(
            testDescription: "an account that has nothing but a hold",
            finding: "no balance",
            changes: [
                .delete(.hold(.numbered(50))), .delete(.balance(account)),
                .put(.hold(.sample(.numbered(51), of: account, amount: 4))),
            ]
        ),
    ]

    @Test(arguments: StorageDriver.allCases)
    func `a correct ledger has no differences`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            #expect(
                try await storage.verifyLedger()
                    == LedgerReport(accounts: 0, transfers: 0, differences: [])
            )
            try await storage.store(Self.sound)
            for neighbour in [1, 4, 6, 9].map(Identifier.numbered) {
                try await storage.store(.put(.balance(.sample(neighbour))))
            }
            #expect(
                try await storage.verifyLedger()
                    == LedgerReport(accounts: 5, transfers: 2, differences: [])
            )
        }
    }

    @Test(arguments: StorageDriver.allCases, faults)
    func `a fault is found only in its own account`(
        driver: StorageDriver,
        fault: Fault
    ) async throws {
        try await driver.withEmptyStorage { storage in
            for neighbour in [4, 6].map(Identifier.numbered) {
                try await storage.store(
                    .append(.sample(of: neighbour, .grant, 1, available: 1)),
                    .put(.balance(.sample(neighbour, head: 1, available: 1)))
                )
            }
            try await storage.store(Self.sound)
            try await storage.store(fault.changes)
            let report = try await storage.verifyLedger()
            #expect(report.accounts == 3)
            #expect(report.differences.map(\.account) == [Self.account])
            let finding = report.differences.first?.finding ?? ""
            #expect(finding.contains(fault.finding), "It says: \(finding)")
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a report contains at most its limit of differences`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let changes = (0...UInt64(LedgerReport.limit)).map { number in
                Change.put(.balance(.sample(.numbered(number), available: 1)))
            }
            try await storage.store(changes)
            let report = try await storage.verifyLedger()
            #expect(report.accounts == LedgerReport.limit + 1)
            #expect(report.differences.count == LedgerReport.limit)
        }
    }
}
