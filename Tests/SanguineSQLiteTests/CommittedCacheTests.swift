import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// Reads from the cache, and the rows that may be cached.
@Suite("SQLite storage: committed cache", .bounded)
struct CommittedCacheTests {
    private let cache = CommittedCache(capacity: 4)
    private let account = Identifier.fresh()

    private func balance(_ available: Int64, of account: Identifier? = nil) -> Row {
        var row = BalanceRow.empty(account ?? self.account)
        row.available = available
        return .balance(row)
    }

    private func draft(_ row: Row) -> CommittedCache.Draft {
        var draft = CommittedCache.Draft()
        draft.record(.put(row))
        return draft
    }

    private func commit(_ row: Row, succeeds: Bool = true) {
        cache.commitBegins(draft(row))
        cache.commitEnded(draft(row), committed: succeeds)
    }

    @Test func `the cache answers only if it contains all rows`() {
        commit(balance(1))
        #expect(cache.loaded([.balance(account)])?.balance(account)?.available == 1)
        #expect(cache.loaded([.balance(account), .account(account)]) == nil)
        #expect(cache.loaded([.balance(account), .hold(account)]) == nil)
    }

    @Test func `a row is not answered while it is being committed`() {
        commit(balance(1))
        cache.commitBegins(draft(balance(2)))
        #expect(cache.loaded([.balance(account)]) == nil)
        cache.commitEnded(draft(balance(2)), committed: true)
        #expect(cache.row(.balance(account)) == balance(2))
    }

    @Test func `a failed commit leaves no cached row`() {
        commit(balance(1))
        commit(balance(2), succeeds: false)
        #expect(cache.row(.balance(account)) == nil)
    }

    @Test func `a deletion is committed like a change`() {
        commit(balance(1))
        var draft = CommittedCache.Draft()
        draft.record(.delete(.balance(account)))
        cache.commitBegins(draft)
        cache.commitEnded(draft, committed: true)
        #expect(cache.row(.balance(account)) == nil)
    }

    @Test func `a read without a concurrent commit is cached`() {
        let tickets = cache.tickets(for: [.balance(account), .hold(account)])
        cache.fill([balance(3)], with: tickets)
        #expect(cache.row(.balance(account)) == balance(3))
    }

    @Test(arguments: [true, false])
    func `a read with an intervening commit is not cached`(commitBeganBefore: Bool) {
        if commitBeganBefore { cache.commitBegins(draft(balance(2))) }
        let tickets = cache.tickets(for: [.balance(account)])
        if !commitBeganBefore { cache.commitBegins(draft(balance(2))) }
        cache.commitEnded(draft(balance(2)), committed: true)
        cache.fill([balance(1)], with: tickets)
        #expect(cache.row(.balance(account)) == balance(2))
    }

    @Test func `a read that ends during a commit is not cached`() {
        let tickets = cache.tickets(for: [.balance(account)])
        cache.commitBegins(draft(balance(2)))
        cache.fill([balance(1)], with: tickets)
        #expect(cache.row(.balance(account)) == nil)
    }

    @Test func `the cache keeps recently used accounts within its capacity`() {
        let accounts = (0..<20).map { _ in Identifier.fresh() }
        commit(balance(0, of: account))
        for other in accounts {
            commit(balance(1, of: other))
            #expect(cache.row(.balance(account)) != nil, "it was in use")
            #expect(cache.count <= 4)
        }
        #expect(cache.row(.balance(accounts[0])) == nil)
        #expect(cache.row(.balance(accounts[19])) != nil)
    }

    @Test func `a row that was read is cached`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let first = try SQLiteStorage(folder: folder.url)
        try await first.spend(from: account, key: "a")
        #expect(first.cache.loaded([.balance(account)]) != nil, "it was just committed")
        await first.close()
        let second = try SQLiteStorage(folder: folder.url)
        #expect(second.cache.loaded([.balance(account)]) == nil)
        #expect(try await second.available(account) == 999_999)
        #expect(second.cache.loaded([.balance(account)]) != nil)
        await second.close()
    }

    @Test func `a small cache gives the same answers as a large one`() async throws {
        var options = SQLiteStorageOptions()
        options.cachedAccounts = 2
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        let accounts = (0..<10).map { _ in Identifier.fresh() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<200 {
                group.addTask {
                    let account = accounts[caller % 10]
                    let mine = try await storage.spend(from: account, key: "key \(caller)")
                    #expect(try await storage.available(account) ?? .max <= mine)
                }
            }
            try await group.waitForAll()
        }
        for account in accounts { #expect(try await storage.available(account) == 999_980) }
        #expect(storage.cache.count <= 2)
        await storage.close()
    }
}
