import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

/// The contract of every storage driver for sessions beyond an account's limit.
@Suite("Storage contract: surplus sessions", .bounded)
struct StorageSurplusContractTests {
    private func surplus(
        of account: Identifier = .numbered(1),
        kept: Int,
        in storage: any Storage
    ) async throws -> [SessionRow] {
        let question = SurplusSessions(of: account, kept: kept)
        let command = Command(keys: [], surplus: question) { loaded throws(Problem) in
            Decision(loaded.surplusSessions)
        }
        return try await storage.perform(command).get()
    }

    @Test(arguments: StorageDriver.allCases)
    func `surplus sessions are the least recently used, oldest first`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let sessions = [5, 9, 7, 7, 3].enumerated().map { index, use in
                SessionRow.sample(.numbered(UInt64(index + 1)), rotatedAt: .at(use))
            }
            let order = [sessions[4], sessions[0], sessions[2], sessions[3], sessions[1]]
            try await storage.store(sessions.map { .put(.session($0)) })
            for kept in 0...6 {
                let found = try await surplus(kept: kept, in: storage)
                #expect(found == Array(order.dropLast(kept)), "\(kept) kept")
            }
            #expect(try await surplus(kept: -1, in: storage) == order)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `sessions of other accounts and ended sessions are not surplus`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let mine = SessionRow.sample(.numbered(1), rotatedAt: .at(1))
            try await storage.store(
                .put(.session(mine)),
                .put(.session(.sample(.numbered(2), of: .numbered(2)))),
                .put(.session(.sample(.numbered(3), endedAt: .at(2))))
            )
            #expect(try await surplus(kept: 0, in: storage) == [mine])
            #expect(try await surplus(kept: 1, in: storage) == [])
            #expect(try await surplus(of: .numbered(9), kept: 0, in: storage) == [])

            var ended = mine
            ended.endedAt = .at(3)
            try await storage.store(.put(.session(ended)))
            #expect(try await surplus(kept: 0, in: storage) == [])
            try await storage.store(.put(.session(mine)))
            #expect(try await surplus(kept: 0, in: storage) == [mine])
            try await storage.store(.delete(.session(mine.id)))
            #expect(try await surplus(kept: 0, in: storage) == [])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `swept sessions are not surplus`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let sessions = [1, 2].map {
                SessionRow.sample(.numbered($0), expiresAt: .at(Int64($0)))
            }
            try await storage.store(sessions.map { .put(.session($0)) })
            let horizon = SweepHorizon(answers: .at(0), sessions: .at(2), holds: .at(0))
            #expect(try await storage.sweep(horizon, limit: 10) == 1)
            #expect(try await surplus(kept: 0, in: storage) == [sessions[1]])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `at most the limit is returned at once`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let sessions = (1...20).map {
                SessionRow.sample(.numbered($0), rotatedAt: .at(Int64($0)))
            }
            try await storage.store(sessions.map { .put(.session($0)) })
            let found = try await surplus(kept: 1, in: storage)
            #expect(found == Array(sessions.prefix(SurplusSessions.limit)))
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `each of many concurrent sign-ins sees the earlier ones, so the limit holds`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let account = Identifier.numbered(1)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 1...200 as ClosedRange<UInt64> {
                    group.addTask {
                        let others = SurplusSessions(of: account, kept: 9)
                        let new = SessionRow.sample(.numbered(number))
                        let command = Command(keys: [], surplus: others) { loaded throws(Problem) in
                            let ended = loaded.surplusSessions.map { row in
                                var row = row
                                row.endedAt = .at(0)
                                return row
                            }
                            return Decision((), changes: (ended + [new]).map { .put(.session($0)) })
                        }
                        try await storage.perform(command).get()
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await surplus(kept: 0, in: storage).count == 10)
            let all = try await storage.load((1...200).map { .session(.numbered($0)) })
            let ended = (1...200).compactMap { all.session(.numbered($0))?.endedAt }
            #expect(ended.count == 190)
        }
    }
}
