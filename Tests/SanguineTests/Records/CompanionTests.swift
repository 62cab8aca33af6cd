import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct CompanionTests {
    private func companion(_ fixture: RecordsFixture) throws -> SanguineCompanion {
        var configuration = SanguineClient.Configuration()
        configuration.folder = fixture.folder?.url
        configuration.schema = .counters
        configuration.clock = fixture.wall
        configuration.delay = fixture.delay
        configuration.logger = .silent
        return try SanguineCompanion(configuration)
    }

    /// Opens another connection, which holds the write lock.
    private func lockOutbox(of fixture: RecordsFixture) throws -> DatabaseQueue {
        var configuration = GRDB.Configuration()
        configuration.allowsUnsafeTransactions = true
        let path = try fixture.place.outbox.path
        let other = try DatabaseQueue(path: path, configuration: configuration)
        try execute("BEGIN IMMEDIATE", on: other)
        return other
    }

    private func execute(_ sql: String, on database: DatabaseQueue) throws {
        try database.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    @Test func `a companion waits a bounded time for a suspended app, and its reads do not wait`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        try await client.synchronize()
        let companion = try companion(fixture)
        let folder = try #require(fixture.folder).url
        let lock = try #require(LockFile(folder.appending(path: "sanguine-users.lock").path))
        #expect(lock.tryLock())
        let failure = WatchedState<SanguineError?>(nil)
        Thread.detachNewThread {
            do throws(SanguineError) {
                try companion.perform(Count(id: .of("a")))
            } catch {
                failure.withLock { $0 = error }
            }
        }
        var longest = Duration.zero
        try await eventually("the companion gives up") {
            let time = ContinuousClock().measure {
                #expect(companion.record(Counter.self, .of("a"))?.count == 10)
            }
            longest = max(longest, time)
            return failure.value != nil
        }
        #expect(longest < ClientLimits.fileLockWait / 2)
        #expect(failure.value?.description.contains("suspended") == true)
        lock.close()
        try companion.perform(Count(id: .of("a")))
        #expect(companion.record(Counter.self, .of("a"))?.count == 11)
    }

    @Test(arguments: [true, false])
    func `waiting for a database that another process has locked is bounded`(
        isCompanion: Bool
    ) async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        let companion = try companion(fixture)
        let other = try lockOutbox(of: fixture)
        let failure = WatchedState<SanguineError?>(nil)
        Thread.detachNewThread {
            do throws(SanguineError) {
                if isCompanion {
                    try companion.perform(Count(id: .of("a")))
                } else {
                    _ = try client.perform(Count(id: .of("a")))
                }
            } catch {
                failure.withLock { $0 = error }
            }
        }
        // Reads may wait for the lock as well.
        var longest = Duration.zero
        try await eventually("the write is refused") {
            let time = ContinuousClock().measure {
                #expect(client.count("a") == 1 && client.outbox.pending.count == 1)
                #expect(companion.record(Counter.self, .of("a"))?.count == 1)
            }
            longest = max(longest, time)
            return failure.value != nil
        }
        #expect(longest < ClientLimits.databaseLockWait * 4)
        #expect(failure.value?.description.contains("may be suspended: try again") == true)

        try execute("COMMIT", on: other)
        if isCompanion {
            try companion.perform(Count(id: .of("a")))
        } else {
            try client.add("a")
        }
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.authority.count("a") == 2)
    }

    @Test func `an operation that a locked database delayed is sent and applied once`() async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        var client = try fixture.client()
        try client.add("a")
        let other = try lockOutbox(of: fixture)
        fixture.connectivity.connect()
        let refusal = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(refusal?.code == "store")
        #expect(client.outbox.pending.count == 1 && fixture.pushes.isEmpty)
        try execute("COMMIT", on: other)
        client.close()
        client = try fixture.client()
        try await client.synchronize()
        #expect(fixture.authority.count("a") == 1 && client.outbox.pending.isEmpty)
    }

    @Test func `a companion shows the app's records and pending operations`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        try await client.synchronize()
        fixture.connectivity.disconnect()
        try client.add("a")
        let companion = try companion(fixture)
        #expect(companion.record(Counter.self, .of("a"))?.count == 11)
        try client.add("a")
        #expect(companion.record(Counter.self, .of("a"))?.count == 12)
    }

    @Test func `a companion's operation is sent by the app and settled for both`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        let client = try fixture.client()
        try await client.synchronize()
        let companion = try companion(fixture)
        try companion.perform(Count(id: .of("a")))
        #expect(companion.record(Counter.self, .of("a"))?.count == 1)
        #expect(fixture.pushes.isEmpty)
        try await client.synchronize()
        #expect(fixture.authority.count("a") == 1 && client.count("a") == 1)
        #expect(companion.record(Counter.self, .of("a"))?.count == 1)
    }

    @Test func `a companion's operation is sent even if mutations are opened after it`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        let client = try fixture.client()
        try await client.users.current.feed.synchronize()
        try companion(fixture).perform(Count(id: .of("a")))
        try client.users.current.outbox.open(.remote)
        try await client.synchronize()
        #expect(fixture.authority.count("a") == 1 && client.count("a") == 1)
    }

    @Test func `a companion is notified of a discarded operation`() throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let writes = WatchedState(0)
        let client = try fixture.client { $0.durableWrites = { writes.withLock { $0 += 1 } } }
        let receipt = try client.add("a")
        #expect(writes.value == 1)
        try client.outbox.discard(receipt.id)
        #expect(writes.value == 2)
    }

    @Test func `the app sees a companion's operation within a second while it observes`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client { $0.recordPolling = nil }
        try client.add("b")
        var updates = client.updates(of: .record(Counter.self, .of("a"))).makeAsyncIterator()
        #expect(await updates.next() == .some(nil))
        try companion(fixture).perform(Count(id: .of("a"), by: 3))
        try await fixture.delay.waitForSleepers(1)
        fixture.delay.advance(by: .seconds(1))
        #expect(await updates.next()??.count == 3)
    }

    @Test func `a companion sees the app's changes within a second while it observes`()
        async throws
    {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client { $0.recordPolling = nil }
        try client.add("a")
        let companion = try companion(fixture)
        var updates = companion.updates(of: .record(Counter.self, .of("a"))).makeAsyncIterator()
        #expect(await updates.next()??.count == 1)
        try client.add("a")
        try await fixture.delay.waitForSleepers(1)
        fixture.delay.advance(by: .seconds(1))
        #expect(await updates.next()??.count == 2)
    }

    @Test func `a companion that starts before the app has files sees them appear`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let companion = try companion(fixture)
        var updates = companion.updates(of: .record(Counter.self, .of("a"))).makeAsyncIterator()
        try await fixture.delay.waitForSleepers(1)
        let client = try fixture.client { $0.recordPolling = nil }
        try client.add("a")
        fixture.delay.advance(by: .seconds(1))
        while let counter = await updates.next(), counter?.count != 1 {}
        #expect(companion.record(Counter.self, .of("a"))?.count == 1)
    }

    @Test func `a companion forgets a user who has signed out of the app`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        try await client.synchronize()
        let companion = try companion(fixture)
        #expect(companion.record(Counter.self, .of("a"))?.count == 10)
        fixture.authorizer.change(to: nil, in: client)
        #expect(companion.record(Counter.self, .of("a")) == nil)
    }

    @Test func `a companion moves to the new client when the app erases its data`() async throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.authority.set("a", to: 10)
        let client = try fixture.client()
        try await client.synchronize()
        let companion = try companion(fixture)
        #expect(companion.record(Counter.self, .of("a"))?.count == 10)
        try await client.eraseLocalData()
        #expect(companion.record(Counter.self, .of("a")) == nil)
        #expect(client.records(Counter.self).isEmpty)
        try companion.perform(Count(id: .of("b")))
        #expect(try client.users.current.outbox.file.count() == 1)
    }

    @Test func `a companion needs the app's folder`() {
        let refusal = #expect(throws: SanguineError.self) { try SanguineCompanion(.inMemory()) }
        #expect(refusal?.code == "not_configured")
    }
}
