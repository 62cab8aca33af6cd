import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// The contract of every storage driver for commands and loads, regardless of its database.
///
/// A new driver is complete when it is a case of ``StorageDriver`` and the suites of this target
/// pass. A guarantee of only one driver does not belong in the protocol.
@Suite("Storage contract: commands", .bounded)
struct StorageContractTests {
    @Test(arguments: StorageDriver.allCases)
    func `a thousand concurrent increments lose none`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            let answers = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<1_000 {
                    group.addTask { try await storage.add(1, to: account) }
                }
                return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
            }
            #expect(answers == Set(1...1_000), "every caller saw a value of its own")
            #expect(
                try await storage.load([.balance(account)]).balance(account)?.available == 1_000
            )
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `health checks change nothing, and fail after the storage is closed`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            _ = try await storage.add(5, to: account)
            for _ in 1...3 { try await storage.checkHealth() }
            #expect(try await storage.add(1, to: account) == 6)
            #expect(storage.freeBytes.map { $0 > 0 } ?? true)
            await storage.close()
            await #expect(throws: StorageError.closed) { try await storage.checkHealth() }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a refused command changes nothing and returns its problem`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            _ = try await storage.add(5, to: account)
            let problem = Problem(.insufficientTokens, "Top up.")
            let refused = try await storage.perform(
                Command<Void>(keys: [.balance(account)]) { _ throws(Problem) in throw problem }
            )
            #expect(throws: problem) { try refused.get() }
            #expect(try await storage.add(0, to: account) == 5)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a command that changes nothing returns its outcome`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let command = Command(keys: []) { _ throws(Problem) in Decision("looked") }
            let answer = try await storage.perform(command)
            #expect(try answer.get() == "looked")
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a command receives exactly the rows that it requested`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let (asked, other) = (Identifier.fresh(), Identifier.fresh())
            _ = try await storage.add(1, to: asked)
            _ = try await storage.add(2, to: other)
            try await storage.store(.put(.account(.sample(asked))))
            let keys: [Key] = [.balance(asked), .account(asked), .account(other)]
            let command = Command(keys: keys) { loaded throws(Problem) in
                Decision([
                    loaded.balance(asked) != nil, loaded.account(asked) != nil,
                    loaded.balance(other) != nil, loaded.account(other) != nil,
                ])
            }
            #expect(try await storage.perform(command).get() == [true, true, false, false])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `changes take effect in order`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            let key = Key.balance(account)
            try await storage.store(
                .put(.balance(.sample(account, available: 1))),
                .delete(key),
                .put(.balance(.sample(account, available: 2))),
                .put(.balance(.sample(account, available: 3)))
            )
            #expect(try await storage.row(key) == .balance(.sample(account, available: 3)))
            try await storage.store(.put(.balance(.sample(account, available: 4))), .delete(key))
            #expect(try await storage.row(key) == nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a put replaces the whole row`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            for (before, after) in zip(SampleRows.full, SampleRows.sparse) {
                try #require(before.key == after.key)
                try await storage.store(.put(before))
                try await storage.store(.put(after))
                #expect(try await storage.row(before.key) == after)
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a delete removes only its own row and may find none`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let rows = SampleRows.full
            for row in rows { try await storage.store(.delete(row.key)) }
            try await storage.store(rows.map(Change.put))
            for (index, row) in rows.enumerated() {
                try await storage.store(.delete(row.key))
                for (other, kept) in rows.enumerated() {
                    let found = try await storage.row(kept.key)
                    #expect(found == (other > index ? kept : nil))
                }
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `every row is read as it was written`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            for row in SampleRows.full + SampleRows.sparse + SampleRows.edges
                + SampleRows.functionEdges
            {
                try await storage.store(.put(row))
                #expect(try await storage.row(row.key) == row)
                let command = Command(keys: [row.key]) { loaded throws(Problem) in
                    Decision(loaded.row(row.key))
                }
                #expect(try await storage.perform(command).get() == row)
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a load of several rows is one snapshot`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let (left, right) = (Identifier.fresh(), Identifier.fresh())
            try await storage.store(
                .put(.balance(.sample(left, available: 1_000))),
                .put(.balance(.sample(right, available: 0)))
            )
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        for _ in 0..<25 { try await storage.move(1, from: left, to: right) }
                    }
                }
                for reader in 0..<8 {
                    // A missing row prevents the load from being answered from a cache.
                    let more: [Key] = reader % 2 == 0 ? [] : [.hold(left)]
                    group.addTask {
                        for _ in 0..<200 {
                            let loaded = try await storage.load(
                                [.balance(left), .balance(right)] + more
                            )
                            let sum =
                                (loaded.balance(left)?.available ?? 0)
                                + (loaded.balance(right)?.available ?? 0)
                            #expect(sum == 1_000)
                        }
                    }
                }
                try await group.waitForAll()
            }
            let loaded = try await storage.load([.balance(left), .balance(right)])
            #expect(loaded.balance(right)?.available == 200)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a reader never sees an older value than before`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            _ = try await storage.add(1, to: account)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        for _ in 0..<100 {
                            let mine = try await storage.add(1, to: account)
                            let seen = try await storage.load([.balance(account)])
                            #expect(seen.balance(account)?.available ?? 0 >= mine)
                        }
                    }
                    group.addTask {
                        var newest: Int64 = 0
                        for turn in 0..<400 {
                            let more: [Key] = turn % 2 == 0 ? [] : [.hold(account)]
                            let loaded = try await storage.load([.balance(account)] + more)
                            let value = loaded.balance(account)?.available ?? 0
                            #expect(value >= newest)
                            newest = value
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `cancelling the caller neither aborts a command nor loses its answer`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            let calls = (0..<100).map { _ in
                Task { try await storage.add(1, to: account) }
            }
            for call in calls { call.cancel() }
            var answers: Set<Int64> = []
            for call in calls { answers.insert(try await call.finished()) }
            #expect(answers == Set(1...100))
            let reading = Task { try await storage.row(.balance(account)) }
            reading.cancel()
            #expect(try await reading.finished() != nil)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a closed storage throws for every call, however often it is closed`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            _ = try await storage.add(1, to: .numbered(1))
            await withTaskGroup { group in
                for _ in 0..<3 { group.addTask { await storage.close() } }
            }
            await storage.close()
            let horizon = SweepHorizon(answers: .at(0), sessions: .at(0), holds: .at(0))
            let calls: [() async throws -> Void] = [
                { _ = try await storage.add(1, to: .numbered(1)) },
                { _ = try await storage.load([.balance(.numbered(1))]) },
                { _ = try await storage.transfers(of: .numbered(1), before: nil, limit: 1) },
                { _ = try await storage.openHolds(expiringBy: .at(0), limit: 1) },
                { _ = try await storage.runningOperations(after: nil, limit: 1) },
                { _ = try await storage.account(email: "a@b.org") },
                { _ = try await storage.sweep(horizon, limit: 1) },
                { _ = try await storage.verifyLedger() },
            ]
            for call in calls {
                await #expect(throws: StorageError.closed) { try await call() }
            }
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `closing finishes the commands accepted before`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.fresh()
            let calls = (0..<200).map { _ in
                Task { try await storage.add(1, to: account) }
            }
            _ = try await calls[0].finished()
            await storage.close()
            var answers: [Int64] = []
            for call in calls {
                do {
                    answers.append(try await call.finished())
                } catch {
                    #expect(error as? StorageError == .closed)
                }
            }
            // Each accepted command has its own answer, without a gap.
            #expect(Set(answers) == Set(1...Int64(answers.count)))
        }
    }
}

extension Storage {
    fileprivate func move(
        _ amount: Int64,
        from: Identifier,
        to: Identifier
    ) async throws {
        let command = Command(keys: [.balance(from), .balance(to)]) { loaded throws(Problem) in
            guard var source = loaded.balance(from), var target = loaded.balance(to) else {
                throw Problem(.notFound, "Make both first.")
            }
            source.available -= amount
            target.available += amount
            return Decision((), changes: [.put(.balance(source)), .put(.balance(target))])
        }
        try await perform(command).get()
    }
}
