import Foundation
import Sanguine
import SanguineModel
import SanguineServer
import SanguineTesting
import Synchronization
import TestSupport
import Testing

extension EndToEnd {
    /// The server, played against each cell of the storage matrix: a cell that says something else
    /// than the server does is found here.
    @Suite("Storage matrix: functions", .bounded(.seconds(180)))
    struct FunctionCellTests {
        private static let calls: [any CellCall.Type] = [
            PlainCall.self, ShortCall.self, DailyCall.self, SessionCall.self, LastingCall.self,
            FactCall.self, SharedCall.self,
        ]

        /// A server with one function for each kind of cell, and devices of its accounts.
        private struct Stage: Sendable {
            let root: URL
            let server: LocalServer
            let clock: ManualWallClock
            let runs: Runs
            let matrix: PrintedMatrix

            func client(
                _ name: String,
                _ network: RecordedNetwork = RecordedNetwork()
            ) throws -> SanguineClient {
                var configuration = SanguineClient.Configuration.of(
                    port: server.port,
                    folder: root.appending(path: name),
                    clock: clock
                )
                configuration.transport = network
                configuration.timeZone = "UTC"
                configuration.functions = calls.map { $0 as any FunctionCall.Type }
                return try SanguineClient(configuration)
            }

            /// Returns a client without local data, with the device's identity.
            func reinstalled(_ name: String) throws -> SanguineClient {
                let new = name + "-reinstalled"
                try DeviceIdentityFile(in: root.appending(path: name))
                    .copy(to: root.appending(path: new))
                return try client(new)
            }

            /// Makes a call, and returns whether the function ran for it.
            func runs<Call: CellCall>(_ call: Call, _ client: SanguineClient) async throws -> Bool {
                let before = runs.count
                let result = try await client.result(of: call)
                #expect(result.cached == (runs.count == before), "\(Call.name)")
                return runs.count > before
            }
        }

        private static func withStage(
            _ body: @escaping @Sendable (Stage) async throws -> Void
        ) async throws {
            let (clock, runs) = (ManualWallClock(), Runs())
            try await TemporaryFolder.with { root in
                try await LocalServer.with(
                    folder: root.appending(path: "data"),
                    functions: calls.map { function($0, runs) },
                    clock: clock
                ) { server in
                    let declared = calls.map { $0 as any FunctionCall.Type }
                    var configuration = SanguineClient.Configuration.inMemory()
                    configuration.functions = declared
                    let client = try SanguineClient(configuration)
                    defer { client.close() }
                    try await body(
                        Stage(
                            root: root,
                            server: server,
                            clock: clock,
                            runs: runs,
                            matrix: PrintedMatrix(client.matrix())
                        )
                    )
                }
            }
        }

        private static func function<Call: CellCall>(
            _ type: Call.Type,
            _ runs: Runs
        ) -> ServerFunction {
            ServerFunction(type) { _ in runs.next() }
        }

        @Test func `the server prints the same rows as a client that declares the functions`()
            throws
        {
            let runs = Runs()
            let matrix = StorageMatrix(
                of: ServerSettings(),
                functions: Self.calls.map { Self.function($0, runs) }
            )
            var configuration = SanguineClient.Configuration(
                server: URL(string: "http://127.0.0.1:1")
            )
            configuration.isInMemory = true
            configuration.functions = Self.calls.map { $0 as any FunctionCall.Type }
            let client = try SanguineClient(configuration)
            defer { client.close() }
            let shown = client.matrix()

            for name in Self.calls.map({ $0.name }) + ["notes", "posts"] {
                #expect(shown[name] != nil && shown[name] == matrix[name], "\(name)")
            }
        }

        @Test func `a second call runs, or is answered from the cache, as the cell says`()
            async throws
        {
            try await Self.withStage { stage in
                func play<Call: CellCall>(_ call: Call) async throws {
                    let network = RecordedNetwork()
                    let client = try stage.client("twice-\(Call.name)", network)
                    defer { client.close() }
                    #expect(try await stage.runs(call, client))
                    let life = try stage.matrix.life(Call.name, "server")
                    #expect(try await stage.runs(call, client) == (life == .none), "\(Call.name)")
                    // The client caches no call.
                    #expect(try stage.matrix.cell(Call.name, "client") == "none")
                    #expect(try stage.matrix.cell(Call.name, "tier") == "none")
                    #expect(network.count(of: "/v1/functions/\(Call.name)") == 2, "\(Call.name)")
                }
                for type in Self.calls { try await play(Self.call(type, "twice")) }
            }
        }

        @Test func `an answer is cached until the moment in the cell`() async throws {
            try await Self.withStage { stage in
                func play<Call: CellCall>(_ call: Call) async throws {
                    let client = try stage.client("expiry-\(Call.name)")
                    defer { client.close() }
                    let life = try stage.matrix.life(Call.name, "server")
                    #expect(try await stage.runs(call, client))
                    let end = life.end(from: stage.clock.now())
                    stage.clock.advance(by: (end ?? .hours(20 * 24)) - .seconds(1))
                    #expect(try await stage.runs(call, client) == (life == .none), "\(Call.name)")
                    stage.clock.advance(by: .seconds(2))
                    let runs = try await stage.runs(call, client)
                    #expect(runs == (life == .none || end != nil), "\(Call.name)")
                }
                for type in Self.calls { try await play(Self.call(type, "expiry")) }
            }
        }

        @Test func `a changed fact of the account ends the answers that depend on it`()
            async throws
        {
            try await Self.withStage { stage in
                func play<Call: CellCall>(_ call: Call) async throws {
                    let client = try stage.client("fact-\(Call.name)")
                    defer { client.close() }
                    let life = try stage.matrix.life(Call.name, "server")
                    _ = try await stage.runs(call, client)
                    try client.account.update { $0.settings["birth"] = "1990-01-02" }
                    try await client.synchronize()
                    let runs = try await stage.runs(call, client)
                    #expect(runs == (life == .none || life == .fact("birth")), "\(Call.name)")
                }
                for type in Self.calls { try await play(Self.call(type, "fact")) }
            }
        }

        @Test func `a new session, a restart and a reinstall find what the cells say`()
            async throws
        {
            try await Self.withStage { stage in
                func play<Call: CellCall>(_ call: Call) async throws {
                    let name = "restored-\(Call.name)"
                    let isCached = try stage.matrix.life(Call.name, "server") != .none
                    let first = try stage.client(name)
                    _ = try await stage.runs(call, first)
                    try await first.waitUntilIdle()
                    first.close()

                    let restarted = try stage.client(name)
                    #expect(try await stage.runs(call, restarted) == !isCached, "\(name)")
                    try await restarted.waitUntilIdle()
                    restarted.close()

                    let reinstalled = try stage.reinstalled(name)
                    let restored = try stage.matrix.cell(Call.name, "restored")
                    let runs = try await stage.runs(call, reinstalled)
                    #expect(runs == (restored == "no"), "\(name)")

                    _ = try await stage.runs(call, reinstalled)
                    await reinstalled.signOut()
                    let isOfSession = try stage.matrix.cell(Call.name, "server for") == "session"
                    let again = try await stage.runs(call, reinstalled)
                    #expect(again == (!isCached || isOfSession), "\(name)")
                    reinstalled.close()
                }
                for type in Self.calls { try await play(Self.call(type, "restored")) }
            }
        }

        @Test func `another account is answered from the cache only if the cell says everyone`()
            async throws
        {
            try await Self.withStage { stage in
                func play<Call: CellCall>(_ call: Call) async throws {
                    let (one, other) = (
                        try stage.client("one-\(Call.name)"), try stage.client("other-\(Call.name)")
                    )
                    defer { for client in [one, other] { client.close() } }
                    _ = try await stage.runs(call, one)
                    let audience = try stage.matrix.cell(Call.name, "server for")
                    let runs = try await stage.runs(call, other)
                    #expect(one.accountId != other.accountId)
                    #expect(runs == (audience != "everyone"), "\(Call.name)")
                }
                for type in Self.calls { try await play(Self.call(type, "other")) }
            }
        }

        private static func call<Call: CellCall>(_: Call.Type, _ key: String) -> Call {
            Call(input: CellInput(key: key))
        }
    }
}

/// Counts the runs of all functions.
private final class Runs: Sendable {
    private let number = Atomic<Int>(0)

    var count: Int { number.load(ordering: .sequentiallyConsistent) }

    func next() -> Int { number.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue }
}

private struct CellInput: Codable, Sendable {
    var key: String
}

/// A function whose output is the number of the run.
private protocol CellCall: FunctionCall where Input == CellInput, Output == Int {
    init(input: CellInput)
}

private struct PlainCall: CellCall {
    static let name = "plain"
    static let rules = FunctionRules(price: .free)
    let input: CellInput
}

private struct ShortCall: CellCall {
    static let name = "short"
    static let rules = FunctionRules(price: .free, cache: .duration(.seconds(300)))
    let input: CellInput
}

private struct DailyCall: CellCall {
    static let name = "daily-cell"
    static let rules = FunctionRules(price: .free, cache: .untilMidnight)
    let input: CellInput
}

private struct SessionCall: CellCall {
    static let name = "of-session"
    static let rules = FunctionRules(price: .free, cache: .session)
    let input: CellInput
}

private struct LastingCall: CellCall {
    static let name = "lasting"
    static let rules = FunctionRules(price: .free, cache: .forever)
    let input: CellInput
}

private struct FactCall: CellCall {
    static let name = "of-birth"
    static let rules = FunctionRules(price: .free, cache: .untilChange(of: "birth"))
    let input: CellInput
}

private struct SharedCall: CellCall {
    static let name = "shared"
    static let rules = FunctionRules(
        price: .free,
        cache: .duration(.seconds(3_600)).public(sharing: "key")
    )
    let input: CellInput
}
