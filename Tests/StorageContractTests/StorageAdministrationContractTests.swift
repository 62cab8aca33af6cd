import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for lists of accounts, rows of an account, and the audit
/// log.
@Suite("Storage contract: administration", .bounded)
struct StorageAdministrationContractTests {
    private let owner = Identifier.numbered(1)

    private func entry(_ number: Int64, after last: AuditRow?) -> AuditRow {
        AuditRow(
            number: number,
            previous: last?.hash ?? AuditRow.noHash,
            at: .at(number),
            actor: "anna",
            role: "support",
            action: "account.grant",
            account: number == 2 ? nil : owner,
            reason: "a reason of \(number)",
            outcome: "done",
            detail: number == 2 ? nil : "\(number)"
        )
    }

    @Test(arguments: StorageDriver.allCases)
    func `active accounts are listed by kind, page by page`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            var rows = (1...6).map { AccountRow.sample(.numbered($0)) }
            rows[1].profile.kind = .registered
            rows[2].state = .deleted
            rows[3].state = .merged(into: owner)
            try await storage.store(rows.map { .put(.account($0)) })

            let all = try await storage.accounts(AccountsQuery(limit: 9)).map(\.id)
            #expect(all == [1, 2, 5, 6].map(Identifier.numbered))
            let guests = AccountsQuery(kind: .guest, after: owner, limit: 1)
            #expect(try await storage.accounts(guests).map(\.id) == [.numbered(5)])
            let registered = AccountsQuery(kind: .registered, limit: 9)
            #expect(try await storage.accounts(registered).map(\.id) == [.numbered(2)])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the rows of an account are listed in the order of their keys`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let other = Identifier.numbered(2)
            var changes: [Change] = []
            for account in [owner, other] {
                for number in UInt64(1)...3 {
                    let name = "\(account == owner ? "own" : "other")-\(number)"
                    let device = DeviceRow(
                        id: name,
                        secretHash: [1],
                        account: account,
                        createdAt: .at(0)
                    )
                    let id = Identifier.numbered(number + (account == owner ? 10 : 20))
                    changes += [
                        .put(.device(device)), .put(.session(.sample(id, of: account))),
                        .put(.hold(.sample(id, of: account))),
                        .put(.operation(.done(account, name, head: nil))),
                    ]
                }
            }
            changes += [
                .put(.session(.sample(.numbered(14), of: owner, endedAt: .at(1)))),
                .put(.hold(.sample(.numbered(14), of: owner, state: .released))),
            ]
            try await storage.store(changes)

            for kind in [AccountRowsQuery.Kind.devices, .sessions, .openHolds, .operations] {
                var query = AccountRowsQuery(kind, of: owner, limit: 2)
                let first = try await storage.rows(query)
                #expect(first.count == 2, "\(kind)")
                query.after = first.last?.key
                let rest = try await storage.rows(query)
                #expect(rest.count == 1, "\(kind)")
                let positions = (first + rest).map { $0.key.positionInAccount }
                #expect(
                    positions == positions.sorted { $0.lexicographicallyPrecedes($1) },
                    "\(kind)"
                )
                #expect((first + rest).allSatisfy { $0.membership?.account == owner })
            }
            for kind in AccountRowsQuery.Kind.allCases {
                let query = AccountRowsQuery(kind, of: .numbered(3), limit: 9)
                #expect(try await storage.rows(query) == [], "\(kind)")
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `the audit log keeps every entry, and a command sees the newest one`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            #expect(try await storage.load([.lastAudit]).lastAudit == nil)
            var entries: [AuditRow] = []
            for number in Int64(1)...3 {
                entries.append(entry(number, after: entries.last))
                try await storage.store(.put(.audit(entries[entries.count - 1])))
            }
            #expect(try await storage.load([.lastAudit]).lastAudit == entries.last)
            try await storage.store(.delete(.lastAudit))
            #expect(try await storage.audit(before: nil, limit: 9) == entries.reversed())
            #expect(try await storage.audit(before: 3, limit: 1) == [entries[1]])
            #expect(try await storage.audit(before: 1, limit: 9) == [])
        }
    }

    @Test func `a changed, removed or inserted entry breaks the chain`() {
        var entries: [AuditRow] = []
        for number in Int64(1)...4 { entries.append(entry(number, after: entries.last)) }
        func finding(_ rows: [AuditRow]) -> String? {
            var chain = AuditChain()
            for row in rows { chain.add(row) }
            return chain.finding
        }
        #expect(finding(entries) == nil)
        var changed = entries
        changed[1].reason = "another"
        #expect(finding(changed)?.contains("entry 3") == true)
        var removed = entries
        removed.remove(at: 1)
        #expect(finding(removed) == "entry 2 of the audit log is missing")
    }
}
