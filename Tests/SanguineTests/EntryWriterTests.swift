import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Invalidation marks that a failing disk rejects.
@Suite("Entry writer", .bounded)
struct EntryWriterTests {
    private let folder = TemporaryFolder()

    private func execute(_ sql: String) throws {
        let database = try DatabaseQueue(path: folder.file.path)
        try database.write { try $0.execute(sql: sql) }
        try database.close()
    }

    /// Returns a client with a stored value and a disk that rejects marks.
    private func failing() async throws -> (TestClient, RecordingObserver) {
        let observer = RecordingObserver()
        let test = try TestClient(network: .profiles(), folder: folder) { $0.observer = observer }
        _ = try await test.client.value(of: .profile("ada"))
        test.client.queries.entries.flush()
        try await test.delay.waitForNoSleepers()
        try execute(
            "CREATE TRIGGER t BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        test.client.invalidate(.profile("ada"))
        try await test.delay.waitForSleepers(1)
        return (test, observer)
    }

    private func isMarked(_ test: TestClient) throws -> Bool {
        let key = ValueQuery<Profile>.profile("ada").key.text
        return try test.client.users.current.store.entry(key)?.isStale == true
    }

    @Test func `marks that failed are retried without another write`() async throws {
        let (test, _) = try await failing()
        #expect(try !isMarked(test))
        try execute("DROP TRIGGER t")
        test.delay.advance(by: .seconds(1))
        try await eventually("the mark is on disk") { try isMarked(test) }

        #expect(test.delay.sleeperCount == 0)
    }

    @Test func `retry delays double up to a minute and end after ten attempts`() async throws {
        let (test, observer) = try await failing()
        var waits: [Duration] = []
        for _ in 1...ClientLimits.storeRetries {
            try await test.delay.waitForSleepers(1)
            waits.append(try #require(test.delay.timeToNextWake))
            test.delay.advance(by: try #require(test.delay.timeToNextWake))
        }
        let failures = ClientLimits.storeRetries + 1
        try await eventually("\(failures) failures were reported") {
            observer.events.count { $0 == .storeDegraded } >= failures
        }
        test.client.queries.entries.flush()

        #expect(waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60].map { .seconds($0) })
        #expect(test.delay.sleeperCount == 0)
    }

    @Test func `a flush retries failed writes`() async throws {
        let (test, _) = try await failing()
        try execute("DROP TRIGGER t")
        test.client.queries.entries.flush()

        #expect(try isMarked(test))
        try await test.delay.waitForNoSleepers()
    }

    @Test func `closing retries once and leaves no timer`() async throws {
        let (test, _) = try await failing()
        try execute("DROP TRIGGER t")
        test.client.close()
        try await test.delay.waitForNoSleepers()
        let next = try TestClient(folder: folder)

        #expect(try isMarked(next))
    }
}
