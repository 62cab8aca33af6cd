import Sanguine
import SanguineTesting
import Testing

struct Habit: SyncedRecord {
    static let collection = RecordCollection("habits")
    let id: RecordID
    var title: String
    var streak = 0
}

struct CompleteHabit: RecordMutation {
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

struct HabitTests {
    private static let schema = RecordSchema(Habit.self, CompleteHabit.self)
    private let authority = InMemoryAuthority(schema: schema)
    private let device: TestDevice
    private let run = RecordID.new()

    init() {
        device = TestDevice(network: authority) { $0.register(Habit.self, CompleteHabit.self) }
    }

    @Test func `a habit created on another device is completed here`() async throws {
        authority.set(Habit(id: run, title: "Run"))
        let client = try device.launch()
        try await client.synchronize()

        try client.perform(CompleteHabit(habit: run))
        #expect(client.record(Habit.self, run)?.streak == 1)

        try await client.synchronize()
        #expect(authority.record(Habit.self, run)?.streak == 1)
        #expect(authority.operations().count == 1)
    }
}
