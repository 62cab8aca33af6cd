import Foundation
import SanguineSQLite
import SanguineServer

// Shared by the app and the server, in a module of its own.
struct Habit: SyncedRecord {
    static let collection = RecordCollection("habits", indexes: ["streak"])
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

var settings = ServerSettings()
settings.http.port = 8_080
settings.accounts.grant = 20  // Tokens of a new account.
settings.quotas = [QuotaSetting(name: "readings", perDay: 5)]
settings.functions = [
    FunctionSetting(
        name: "motto",
        kind: .upstream,
        price: .usage(perMillionInput: 2_000, perMillionOutput: 8_000),
        maxOutputTokens: 60,
        systemPrompt: "Encourage the user in one sentence about the given habit."
    )
]
settings.upstream.url = ProcessInfo.processInfo.environment["SANGUINE_UPSTREAM_URL"]

let folder = URL(filePath: CommandLine.arguments.dropFirst().first ?? "data")
let storage = try SQLiteStorage(folder: folder)
let server = try await SanguineServer(
    storage: storage,
    keys: try KeyFile.loadOrCreate(in: folder),
    adminToken: try AdminToken.loadOrCreate(in: folder),
    settings: settings,
    registering: [Habit.self, CompleteHabit.self]
) { ports in print("listening on http://127.0.0.1:\(ports.http)") }
try await server.serve()  // until SIGTERM or SIGINT
await storage.close()
