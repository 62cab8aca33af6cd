import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The operations that a sign-out keeps, and for how long.
@Suite("Retained operations", .bounded)
struct KeptOperationTests {
    private let people = PeopleBackend()
    private var device: TestDevice { people.device }

    /// Returns a client after its user Ada has left an operation queued.
    private func left(
        keeping: SanguineClient.Keeping = .waitingOperations()
    ) async throws -> SanguineClient {
        let client = try device.launch()
        try client.signIn(as: "ada")
        device.connectivity.disconnect()
        try client.perform(Say(text: "ada-deed"))
        await people.signOut(of: client, keeping: keeping)
        return client
    }

    private var isOnDisk: Bool {
        get throws { try !device.files(with: "ada-deed").isEmpty }
    }

    private func waits(for person: String, in client: SanguineClient) throws -> Bool {
        try client.signIn(as: person)
        return !client.outbox.pending.isEmpty
    }

    @Test func `no operations are kept if the app asks for that`() async throws {
        let client = try await left(keeping: .nothing)
        #expect(client.outbox.ofOthers == 0)
        #expect(try !isOnDisk)
        #expect(try !waits(for: "ada", in: client))
    }

    @Test(arguments: [Duration.zero, .seconds(-1)])
    func `without a retention time no operations are kept`(time: Duration) async throws {
        let client = try await left(keeping: .waitingOperations(for: time))
        #expect(client.outbox.ofOthers == 0)
        #expect(try !isOnDisk)
    }

    @Test func `queued operations are kept until their retention time is over`() async throws {
        var client = try await left(keeping: .waitingOperations(for: .hours(24)))
        device.clock.advance(by: .hours(24) - .milliseconds(1))
        try device.kill()
        client = try device.launch()
        #expect(client.outbox.ofOthers == 1)
        #expect(try waits(for: "ada", in: client))
    }

    @Test func `the next launch removes expired operations`() async throws {
        var client = try await left(keeping: .waitingOperations(for: .hours(24)))
        device.clock.advance(by: .hours(24))
        try device.kill()
        client = try device.launch()
        #expect(client.outbox.ofOthers == 0)
        #expect(try !isOnDisk)
        #expect(try !waits(for: "ada", in: client))
    }

    @Test func `the next sign-out removes expired operations too`() async throws {
        let client = try await left(keeping: .waitingOperations(for: .hours(24)))
        try client.signIn(as: "bob")
        device.clock.advance(by: .hours(24))
        await people.signOut(of: client)
        #expect(client.outbox.ofOthers == 0)
        #expect(try !isOnDisk)
    }

    @Test func `a user who returns to a long-running process finds no expired operations`()
        async throws
    {
        let client = try await left(keeping: .waitingOperations(for: .hours(24)))
        device.clock.advance(by: .hours(24))
        #expect(try !waits(for: "ada", in: client))
        #expect(try !isOnDisk)
    }

    /// Advances the clock on a device that is used once a week.
    private func use(for time: Duration) throws {
        var rest = time
        while rest > .zero {
            let step = min(rest, .hours(7 * 24))
            device.clock.advance(by: step)
            rest -= step
            try device.launch()
        }
    }

    @Test(arguments: [true, false])
    func `the default is 90 days`(isOver: Bool) async throws {
        _ = try await left()
        try use(for: .hours(90 * 24) - .milliseconds(isOver ? 0 : 1))
        #expect(device.client?.outbox.ofOthers == (isOver ? 0 : 1))
    }

    private let year2040 = Timestamp(millisecondsSince1970: 2_208_988_800_000)

    @Test(arguments: [.zero, .hours(89 * 24)] as [Duration])
    func `a launch with a clock set to 2040 removes nothing`(age: Duration) async throws {
        _ = try await left()
        try use(for: age)
        let now = device.clock.now()
        device.clock.set(year2040)
        #expect(try device.launch().outbox.ofOthers == 1)
        device.clock.set(now + .hours(1))
        let client = try device.launch()
        #expect(client.outbox.ofOthers == 1)
        device.connectivity.connect()
        try people.signIn("ada", to: client)
        try await client.synchronize()
        #expect(people.deeds == [PeopleBackend.Deed(person: "ada", text: "ada-deed")])
    }

    @Test func `queued operations expire on time even after a launch in 2040`() async throws {
        _ = try await left()
        let now = device.clock.now()
        device.clock.set(year2040)
        try device.launch()
        device.clock.set(now)
        try device.launch()
        try use(for: .hours(90 * 24) - .milliseconds(1))
        #expect(device.client?.outbox.ofOthers == 1)
        try use(for: .milliseconds(1))
        #expect(device.client?.outbox.ofOthers == 0)
        #expect(try !isOnDisk)
    }

    @Test func `a sign-out in 2040 keeps nothing beyond its time`() async throws {
        let now = device.clock.now()
        device.clock.set(year2040)
        _ = try await left()
        device.clock.set(now)
        try device.launch()
        try use(for: .hours(90 * 24))
        #expect(device.client?.outbox.ofOthers == 0)
    }

    @Test func `a sign-out with a clock set to 1970 keeps queued operations`() async throws {
        let now = device.clock.now()
        device.clock.set(Timestamp(millisecondsSince1970: 0))
        _ = try await left()
        device.clock.set(now)
        try device.launch()
        try use(for: .hours(82 * 24))
        #expect(device.client?.outbox.ofOthers == 1)
    }

    @Test func `a device that is used every two months expires queued operations too`()
        async throws
    {
        _ = try await left()
        for _ in 0..<13 {
            device.clock.advance(by: .hours(60 * 24))
            #expect(try device.launch().outbox.ofOthers == 1)
        }
        device.clock.advance(by: .hours(60 * 24))
        #expect(try device.launch().outbox.ofOthers == 0)
    }

    @Test func `an unlimited retention time never ends`() async throws {
        let client = try await left(keeping: .waitingOperations(for: .seconds(Int64.max)))
        device.clock.advance(by: .hours(24 * 365 * 100))
        #expect(try waits(for: "ada", in: client))
    }

    @Test func `each sign-out restarts the retention time`() async throws {
        let client = try await left(keeping: .waitingOperations(for: .hours(24)))
        device.clock.advance(by: .hours(23))
        try client.signIn(as: "ada")
        await people.signOut(of: client, keeping: .waitingOperations(for: .hours(24)))
        device.clock.advance(by: .hours(23))
        #expect(try waits(for: "ada", in: client))
    }

    @Test func `operations without a user are kept for the same time`() async throws {
        let client = try device.launch()
        device.connectivity.disconnect()
        try client.perform(Say(text: "ada-deed"))
        await client.signOut()
        #expect(client.outbox.unclaimed == 1)
        try use(for: .hours(90 * 24))
        #expect(device.client?.outbox.unclaimed == 0)
        #expect(try !isOnDisk)
    }

    @Test func `operations left by an earlier version are kept, counted from the first launch`()
        async throws
    {
        let client = try await left()
        client.close()
        let folder = try #require(client.configuration.folder)
        try makeOld(folder.appending(path: "users/1/\(OutboxFile.name)"))
        device.clock.advance(by: .hours(90 * 24))
        try device.launch()
        try use(for: .hours(90 * 24) - .milliseconds(1))
        #expect(device.client?.outbox.ofOthers == 1)
        try use(for: .milliseconds(1))
        #expect(device.client?.outbox.ofOthers == 0)
    }

    @Test func `an expiry written by the previous version is honored`() async throws {
        let client = try await left()
        client.close()
        let folder = try #require(client.configuration.folder)
        let end = device.clock.now() + .hours(24)
        let file = folder.appending(path: "users/1/\(OutboxFile.name)")
        try execute(
            """
            DROP TABLE absence;
            CREATE TABLE departure (
                one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
                kept_until INTEGER NOT NULL
            ) STRICT;
            INSERT INTO departure VALUES (1, \(end.millisecondsSince1970));
            PRAGMA user_version = 5
            """,
            on: file
        )
        try device.launch()
        try use(for: .hours(24) - .milliseconds(1))
        #expect(device.client?.outbox.ofOthers == 1)
        try use(for: .milliseconds(1))
        #expect(device.client?.outbox.ofOthers == 0)
    }

    /// Changes an outbox to the format of an earlier version.
    private func makeOld(_ file: URL) throws {
        try execute(
            """
            DROP TABLE absence;
            ALTER TABLE operation DROP COLUMN epoch;
            PRAGMA user_version = 3
            """,
            on: file
        )
    }

    private func execute(_ sql: String, on file: URL) throws {
        try DatabaseQueue(path: file.path).writeWithoutTransaction { try $0.execute(sql: sql) }
    }
}
