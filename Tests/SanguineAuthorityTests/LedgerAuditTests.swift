import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Each test damages one part of a correct ledger, and the audit must find it.
@Suite("Ledger audit", .bounded)
struct LedgerAuditTests {
    private let account = Identifier.numbered(1)

    /// Granted 100, spent 7, held 20.
    private func ledger() throws -> (transfers: [Transfer], balance: BalanceRow) {
        var world = World(account, granted: 100)
        let ledger = LedgerCommands()
        let spend = SpendRequest(amount: 7, reason: "tea")
        _ = try world.perform(ledger.spend(account, Submission("s", spend)))
        _ = try world.perform(ledger.hold(account, Submission("h", HoldRequest(amount: 20))))
        return (world.transfers[account] ?? [], try #require(world.balance(account)))
    }

    private func finding(
        _ transfers: [Transfer],
        _ balance: BalanceRow?,
        openHolds: Int64 = 20
    ) -> String? {
        var audit = LedgerAudit(account: account)
        for transfer in transfers { audit.add(transfer) }
        return audit.finish(balance: balance, openHolds: openHolds)?.finding
    }

    @Test func `a correct ledger has no finding`() throws {
        let (transfers, balance) = try ledger()

        #expect(finding(transfers, balance) == nil)
    }

    @Test func `a missing, duplicate or misplaced transfer is found`() throws {
        let (transfers, balance) = try ledger()

        for index in transfers.indices {
            var missing = transfers
            missing.remove(at: index)
            #expect(finding(missing, balance) != nil)
            var doubled = transfers
            doubled.insert(transfers[index], at: index)
            #expect(finding(doubled, balance) != nil)
        }
        #expect(finding(transfers.reversed(), balance) != nil)
        #expect(finding([], balance) != nil)
    }

    @Test func `a changed amount, kind or running balance is found`() throws {
        let (transfers, balance) = try ledger()
        let changes: [(inout Transfer) -> Void] = [
            { $0.amount += 1 }, { $0.amount = .max }, { $0.amount = .min }, { $0.amount = -7 },
            { $0.kind = .grant }, { $0.kind = .release }, { $0.availableAfter -= 1 },
            { $0.heldAfter += 1 }, { $0.seq = 0 }, { $0.seq = .max },
        ]

        for change in changes {
            var changed = transfers
            change(&changed[1])
            #expect(finding(changed, balance) != nil)
        }
    }

    @Test func `overflowing amounts are found and do not stop the audit`() throws {
        var (transfers, balance) = try ledger()
        for index in transfers.indices {
            transfers[index].amount = .max
            transfers[index].kind = .grant
        }
        balance.available = .max

        #expect(finding(transfers, balance) != nil)
    }

    @Test func `a negative amount is found even if the sums agree`() throws {
        var (transfers, balance) = try ledger()
        transfers[1].kind = .grant
        transfers[1].amount = -7

        #expect(finding(transfers, balance)?.contains("negative amount") == true)
    }

    @Test func `a changed balance is found`() throws {
        let (transfers, balance) = try ledger()
        let changes: [(inout BalanceRow) -> Void] = [
            { $0.available += 1 }, { $0.held -= 1 }, { $0.head = 1 },
            { ($0.available, $0.held) = ($0.available + $0.held, 0) },
        ]

        for change in changes {
            var changed = balance
            change(&changed)
            #expect(finding(transfers, changed) != nil)
        }
        #expect(finding(transfers, nil) != nil)
    }

    @Test func `a leaked or lost hold is found`() throws {
        let (transfers, balance) = try ledger()

        #expect(finding(transfers, balance, openHolds: 0) != nil)
        #expect(finding(transfers, balance, openHolds: 21) != nil)
    }

    @Test func `the first finding is reported`() throws {
        var (transfers, balance) = try ledger()
        transfers[1].availableAfter = 0
        balance.available = 5

        #expect(finding(transfers, balance)?.contains("\(transfers[1].id)") == true)
    }
}
