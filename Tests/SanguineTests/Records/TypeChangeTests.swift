import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// An app before an update.
private enum Old {
    struct Habit: SyncedRecord {
        static let collection = RecordCollection("habits")
        let id: RecordID
        var title: String
    }

    struct Rename: RecordMutation {
        static let name = "habit.rename"
        let habit: RecordID
        let title: String

        func apply(to records: inout Records) throws {
            guard var habit = records.get(Habit.self, habit) else {
                throw Refusal(.notFound, "Create the habit first.")
            }
            habit.title = title
            records.set(habit)
        }
    }

    struct Save: RecordMutation {
        static let name = "habit.save"
        let habits: [Habit]

        func apply(to records: inout Records) throws { habits.forEach { records.set($0) } }
    }

    static let schema = RecordSchema(Habit.self, Rename.self, Save.self)

    static let query = ValueQuery<[Habit]>(
        "habits",
        policy: .fresh(for: .minutes(5)).stored(.onDisk)
    ) { _ in throw CancellationError() }
}

/// The same app after the update.
private enum New {
    struct Habit: SyncedRecord, Defaulted {
        static let collection = RecordCollection("habits")
        static let defaults = Habit(id: .new(), title: "")
        let id: RecordID
        var title: String
        var streak = 0
        var look: Look?

        struct Look: Codable, Equatable {
            var color = "red"
            var icon = "star"
        }
    }

    struct Save: RecordMutation {
        static let name = "habit.save"
        let habits: [Habit]

        func apply(to records: inout Records) throws { habits.forEach { records.set($0) } }
    }

    struct Rename: RecordMutation, Defaulted {
        static let name = "habit.rename"
        static let defaults = Rename(habit: .new(), title: "", suffix: "!")
        let habit: RecordID
        let title: String
        var suffix: String

        func apply(to records: inout Records) throws {
            guard var habit = records.get(Habit.self, habit) else {
                throw Refusal(.notFound, "Create the habit first.")
            }
            habit.title = title + suffix
            records.set(habit)
        }
    }

    struct Complete: RecordMutation {
        static let name = "habit.complete"
        let habit: RecordID

        func apply(to records: inout Records) throws {
            guard var habit = records.get(Habit.self, habit) else {
                throw Refusal(.notFound, "Create the habit first.")
            }
            habit.streak += 1
            records.set(habit)
        }
    }

    static let schema = RecordSchema(Habit.self, Rename.self, Complete.self, Save.self)

    static let query = ValueQuery<[Habit]>(
        "habits",
        policy: .fresh(for: .minutes(5)).stored(.onDisk)
    ) { _ in throw CancellationError() }
}

/// The updated app without declared defaults.
private enum Bare {
    struct Habit: SyncedRecord {
        static let collection = RecordCollection("habits")
        let id: RecordID
        var title: String
        var streak: Int
    }

    /// Does what an app does with `profile ?? Profile()`.
    struct Save: RecordMutation {
        static let name = "habit.save"
        let habit: Habit

        func apply(to records: inout Records) throws { records.set(habit) }
    }

    static let schema = RecordSchema(Habit.self, Save.self)
}

private let habit = RecordID.of("run")
private let key = RecordKey("habits", habit)

@Suite("Changed record types", .bounded)
struct TypeChangeTests {
    /// Returns the fixture of an offline device on which an older app has run.
    private func left(
        by schema: RecordSchema = Old.schema,
        server: RecordSchema = New.schema,
        _ body: (SanguineClient) throws -> Void = { _ in }
    ) async throws -> RecordsFixture {
        let fixture = RecordsFixture(onDisk: true, schema: server)
        fixture.authority.put(RecordValue(["title": "Run"]), for: key)
        let client = try fixture.client { $0.schema = schema }
        try await client.synchronize()
        fixture.connectivity.disconnect()
        try body(client)
        client.close()
        return fixture
    }

    @Test func `stored records without a new member are read with its default`() async throws {
        let fixture = try await left()
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        #expect(client.records(New.Habit.self).map(\.streak) == [0])
        #expect(client.storeReport.unreadableRecords == 0)
        try client.perform(New.Complete(habit: habit))
        #expect(client.record(New.Habit.self, habit)?.streak == 1)
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.authority.record(New.Habit.self, habit)?.streak == 1)
    }

    @Test func `a queued operation without a new member is shown and applied`() async throws {
        let fixture = try await left { try $0.perform(Old.Rename(habit: habit, title: "Swim")) }
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        #expect(client.record(New.Habit.self, habit)?.title == "Swim!")
        #expect(client.outbox.pending.map(\.conflict) == [nil])
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(fixture.authority.record(New.Habit.self, habit)?.title == "Swim!")
        #expect(client.outbox.refused.isEmpty)
    }

    @Test func `a queued operation that contains older records is shown and applied`() async throws
    {
        let other = RecordID.of("swim")
        let fixture = try await left {
            try $0.perform(
                Old.Save(habits: [
                    Old.Habit(id: habit, title: "Ride"), Old.Habit(id: other, title: "Swim"),
                ])
            )
        }
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        #expect(client.outbox.pending.map(\.conflict) == [nil])
        #expect(client.records(New.Habit.self).map(\.title) == ["Ride", "Swim"])
        fixture.connectivity.connect()
        try await client.synchronize()
        #expect(client.outbox.refused.isEmpty)
        #expect(fixture.authority.record(New.Habit.self, other)?.title == "Swim")
    }

    @Test func `a stored value with elements of an earlier version is read`() async throws {
        let fixture = try await left {
            $0.set([Old.Habit(id: habit, title: "Run")], for: Old.query)
        }
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        #expect(client.cached(New.query)?.map(\.title) == ["Run"])
        #expect(client.cached(New.query)?.map(\.streak) == [0])
    }

    @Test func `two devices' changes to two members of one object are both kept`() async throws {
        let fixture = try await left()
        let look: JSONValue = ["color": "red", "icon": "star", "size": 3]
        fixture.authority.put(RecordValue(["title": "Run", "look": look]), for: key)
        fixture.connectivity.connect()
        let devices = try (2...3).map { seed in
            try TestClient(network: fixture.network, wall: fixture.wall, seed: UInt64(seed)) {
                $0.schema = New.schema
            }
            .client
        }
        for device in devices { try await device.synchronize() }
        let seen = try devices.map { try #require($0.record(New.Habit.self, habit)) }
        try devices[0].perform(SetFields(seen[0]) { $0.look?.color = "blue" })
        try devices[1].perform(SetFields(seen[1]) { $0.look?.icon = "moon" })
        for device in devices { try await device.synchronize() }
        let both: JSONValue = ["color": "blue", "icon": "moon", "size": 3]
        #expect(fixture.authority.value(key)?["look"] == both)
    }

    @Test func `an older app at a newer server keeps members that it does not know`() async throws {
        let fixture = RecordsFixture(schema: New.schema)
        fixture.authority.put(RecordValue(["title": "Run", "streak": 7]), for: key)
        let client = try fixture.client { $0.schema = Old.schema }
        try await client.synchronize()
        try client.perform(Old.Rename(habit: habit, title: "Swim"))
        #expect(client.users.current.records.value(key)?["streak"] == 7)
        try await client.synchronize()
        #expect(fixture.authority.record(New.Habit.self, habit)?.streak == 7)
        #expect(fixture.authority.record(New.Habit.self, habit)?.title == "Swim!")
    }

    @Test func `a newer app at an older server keeps its member on all devices`() async throws {
        let fixture = RecordsFixture(schema: Old.schema)
        fixture.authority.put(RecordValue(["title": "Run", "streak": 7]), for: key)
        let client = try fixture.client { $0.schema = New.schema }
        try await client.synchronize()
        try client.perform(New.Rename(habit: habit, title: "Swim", suffix: "."))
        try await client.synchronize()
        #expect(client.record(New.Habit.self, habit)?.streak == 7)
        #expect(fixture.authority.value(key)?["streak"] == 7)
    }

    @Test func `an unreadable record is never overwritten as if it were absent`() async throws {
        let fixture = try await left(server: Bare.schema)
        fixture.connectivity.connect()
        let client = try fixture.client(seed: 2) { $0.schema = Bare.schema }
        try await client.synchronize()
        let made =
            client.record(Bare.Habit.self, habit)
            ?? Bare.Habit(id: habit, title: "", streak: 0)
        let error = #expect(throws: SanguineError.self) {
            try client.perform(Bare.Save(habit: made))
        }
        #expect(error?.description.contains("the member 'streak' is missing") == true)
        #expect(fixture.authority.value(key)?["title"] == "Run")
    }

    @Test func `a model reports which member of which record cannot be read`() async throws {
        let fixture = try await left()
        let client = try fixture.client(seed: 2) { $0.schema = Bare.schema }
        let model = await client.model(.all(Bare.Habit.self))
        try await eventually("the model has an error") { await model.error != nil }
        let detail = await MainActor.run { model.error?.description }
        #expect(detail?.contains("'habits/run'") == true)
        #expect(detail?.contains("the member 'streak' is missing") == true)
        #expect(client.storeReport.unreadableRecords == 1)
        fixture.authority.put(RecordValue(["title": "Run", "streak": 1]), for: key)
        fixture.connectivity.connect()
        try await client.synchronize()
        try await eventually("the record is read") {
            await MainActor.run { model.value.map(\.streak) == [1] }
        }
        let after = await MainActor.run { model.error }
        #expect(after == nil)
    }

    @Test func `different members changed in place by two devices are both kept`() async throws {
        let fixture = try await left()
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        let mine = try #require(client.record(New.Habit.self, habit))
        try client.perform(SetFields(mine) { $0.title = "Swim" })
        fixture.authority.put(RecordValue(["title": "Run", "streak": 5]), for: key)
        fixture.connectivity.connect()
        try await client.synchronize()
        let whole = New.Habit(id: habit, title: "Swim", streak: 5)
        #expect(client.record(New.Habit.self, habit) == whole)
        #expect(fixture.authority.record(New.Habit.self, habit) == whole)
    }

    @Test func `another device's change of a record keeps the members pending here`() async throws {
        let fixture = try await left()
        fixture.connectivity.connect()
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        try await client.synchronize()
        let away = TransportError.offline("away")
        fixture.network.script(.fail(away), .fail(away), .fail(away))
        try client.perform(New.Rename(habit: habit, title: "Swim", suffix: ""))
        fixture.authority.put(RecordValue(["title": "Run", "streak": 5, "color": "red"]), for: key)
        client.users.current.feed.pull()
        try await eventually("the other device's change") {
            fixture.delay.advance(by: .seconds(1))
            return client.record(New.Habit.self, habit)?.streak == 5
        }
        #expect(client.record(New.Habit.self, habit)?.title == "Swim")
        try await client.synchronize()
        #expect(
            try fixture.authority.value(key)?.fields()
                == ["title": "Swim", "streak": 5, "color": "red"]
        )
    }

    @Test func `records of a collection that only a later version declares are available after it`()
        async throws
    {
        let fixture = try await left(by: RecordSchema(collections: [RecordCollection("notes")]))
        let client = try fixture.client(seed: 2) { $0.schema = New.schema }
        #expect(client.records(New.Habit.self).map(\.title) == ["Run"])
    }
}
