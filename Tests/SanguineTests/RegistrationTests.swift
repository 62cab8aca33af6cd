import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

private struct Plant: SyncedRecord {
    static let collection = RecordCollection("plants")
    let id: RecordID
    var height = 0
}

/// A different type for the same collection.
private struct Tree: SyncedRecord {
    static let collection = RecordCollection("plants")
    let id: RecordID
}

private struct Water: RecordMutation {
    static let name = "plant.water"
    let plant: RecordID

    func apply(to records: inout Records) throws {
        var plant = records.get(Plant.self, plant) ?? Plant(id: plant)
        plant.height += 1
        records.set(plant)
    }
}

/// A remote mutation with the name of a record mutation.
private struct Sprinkle: RemoteMutation {
    static let name = "plant.water"

    func effects(on view: inout MutationEffects) {}
    func send(_ request: MutationContext) async throws {}
}

private struct Prune: RecordMutation {
    static let name = "plant.prune"

    func apply(to records: inout Records) throws {}
}

private struct Trim: RecordMutation {
    static let name = "plant.prune"

    func apply(to records: inout Records) throws {}
}

@Suite("Registration", .bounded)
struct RegistrationTests {
    private func client(_ types: any Registrable.Type...) throws(SanguineError) -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        for type in types { configuration.register(type) }
        return try SanguineClient(configuration)
    }

    @Test func `one call registers records and every kind of mutation`() throws {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.register(Plant.self, Water.self, Rinse.self)
        let client = try SanguineClient(configuration)
        let plant = RecordID.new()

        try client.perform(Water(plant: plant))
        try client.perform(Rinse())

        #expect(client.record(Plant.self, plant)?.height == 1)
        #expect(client.outbox.pending.map(\.name) == ["plant.water", "plant.rinse"])
    }

    @Test func `a type can be registered twice`() throws {
        let client = try client(Plant.self, Water.self, Rinse.self, Water.self, Rinse.self)

        try client.perform(Rinse())

        #expect(client.outbox.pending.map(\.name) == ["plant.rinse"])
    }

    @Test(
        arguments: [
            ([Water.self, Sprinkle.self], "plant.water"),
            ([Sprinkle.self, Water.self], "plant.water"),
            ([Prune.self, Trim.self], "plant.prune"), ([Plant.self, Tree.self], "plants"),
        ] as [([any Registrable.Type], String)]
    )
    func `a name used by two types is an error that names both`(
        types: [any Registrable.Type],
        name: String
    ) throws {
        var configuration = SanguineClient.Configuration.inMemory()
        for type in types { configuration.register(type) }

        let error = try #require(throws: SanguineError.self) {
            _ = try SanguineClient(configuration)
        }

        #expect(error.code == "invalid_declaration" && error.errorClass == .defect)
        #expect(error.description.contains("'\(name)'"))
        for type in types { #expect(error.description.contains("'\(type)'")) }
    }

    @Test func `the name of a built-in mutation is an error`() throws {
        struct Own: RecordMutation {
            static let name = "record.set"
            func apply(to records: inout Records) throws {}
        }

        let refusal = #expect(throws: SanguineError.self) { _ = try client(Own.self) }
        #expect(refusal?.code == "invalid_declaration")
    }

    @Test func `a collection name that the server rejects is an error`() throws {
        struct Odd: SyncedRecord {
            static let collection = RecordCollection("Odd names")
            let id: RecordID
        }

        let error = try #require(throws: SanguineError.self) { _ = try client(Odd.self) }

        #expect(error.description.contains("'Odd names'"))
    }

    @Test func `performing an unregistered mutation throws an error with instructions`() throws {
        let (client, plant) = (try client(), RecordID.new())

        for (type, perform) in [
            ("Water", { _ = try client.perform(Water(plant: plant)) }),
            ("Rinse", { _ = try client.perform(Rinse()) }),
        ] {
            let error = try #require(throws: SanguineError.self) { try perform() }

            #expect(error.code == "invalid_declaration")
            #expect(error.description.contains("configuration.register(\(type).self)"))
        }
        #expect(client.outbox.pending.isEmpty)
    }

    @Test func `operations of an earlier version stay in the tray, and errors name them`()
        async throws
    {
        let folder = FileManager.default.temporaryDirectory.appending(path: "\(UUID())")
        defer { try? FileManager.default.removeItem(at: folder) }
        func launch(_ types: any Registrable.Type...) throws -> SanguineClient {
            var configuration = SanguineClient.Configuration()
            configuration.folder = folder
            configuration.baseURL = URL(string: "http://test.invalid")
            configuration.connectivity = ManualConnectivity(isOnline: false)
            configuration.register(types)
            return try SanguineClient(configuration)
        }
        let first = try launch(Rinse.self)
        try first.perform(Rinse())
        first.close()

        // Any other mutation, so that the outbox is used.
        let second = try launch(Sprinkle.self)
        try second.perform(Sprinkle())
        let refused = try #require(second.outbox.refused.first)
        #expect(refused.name == "plant.rinse" && refused.problem.code == .mutatorUnknown)
        #expect(refused.problem.detail.contains("'plant.rinse'"))
        let error = try #require(throws: SanguineError.self) {
            try second.outbox.retry(refused.id)
        }
        #expect(error.code == "invalid_declaration")
        #expect(error.description.contains("'plant.rinse'"))
        second.close()

        let third = try launch(Rinse.self)
        try await eventually("the operation waits again") {
            third.outbox.pending.map(\.name) == ["plant.rinse"]
        }
        third.close()
    }

    @Test func `a schema reports types that do not belong to it`() {
        let schema = RecordSchema(Plant.self, Water.self, Rinse.self)

        #expect(schema.faults.count == 1)
        #expect(schema.faults.first?.contains("'Rinse'") == true)
        #expect(schema.collection("plants") == Plant.collection)
        #expect(schema.mutation("plant.water") == Water.self)
    }

    @Test(arguments: ["", "plant water", "plant.gießen", String(repeating: "a", count: 65)])
    func `a mutation name that cannot be sent is a fault of the schema`(name: String) {
        let faults = Unsendable.$name.withValue(name) { RecordSchema(Unsendable.self).faults }

        #expect(faults.count == 1)
        #expect(faults.first?.contains("1 to 64 visible ASCII") == true)
    }
}

/// A mutation whose name is set by each test.
private struct Unsendable: RecordMutation {
    @TaskLocal static var name = "plant.name"

    func apply(to records: inout Records) {}
}

/// A write to a backend that cannot be reached.
private struct Rinse: RemoteMutation {
    static let name = "plant.rinse"

    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws { try await request.post("rinse") }
}
