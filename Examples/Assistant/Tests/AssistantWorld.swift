import AssistantApp
import AssistantModel
import AssistantServer
import ExampleTerminal
import Foundation
import Sanguine
import SanguineAuthority
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// The real server with a stand-in for the model, and devices of one user.
struct AssistantWorld: Sendable {
    /// The time that the team's users waited for an answer and for the balance after it.
    static let latency = Duration.seconds(2)

    let root: URL
    let server: URL
    let registry: OpenMetricsRegistry
    /// The stand-in's clock.
    ///
    /// An answer begins two seconds after its question.
    let modelClock: ManualClock

    /// Runs both servers while the body runs.
    static func with(
        latency: Duration = .zero,
        wordInterval: Duration = .zero,
        selling store: TestAppStore? = nil,
        _ body: @escaping @Sendable (AssistantWorld) async throws -> Void
    ) async throws {
        let (clock, registry) = (ManualClock(), OpenMetricsRegistry())
        let standIn = StandInServer(
            port: 0,
            latency: latency,
            wordInterval: wordInterval,
            clock: clock,
            logger: .errors("stand-in")
        )
        try await TemporaryFolder.with { root in
            try await standIn.serve { model in
                var settings = ServerSettings()
                settings.http.port = 0
                settings.upstream.url = model
                if let store { try Self.sell(store, in: root, &settings) }
                try await AssistantServer.with(
                    folder: root.appending(path: "server"),
                    settings: settings,
                    registry: registry,
                    logger: .errors("assistant")
                ) { server in
                    try await server.serve { addresses in
                        try await body(
                            AssistantWorld(
                                root: root,
                                server: addresses.http,
                                registry: registry,
                                modelClock: clock
                            )
                        )
                    }
                }
            }
        }
    }

    /// Accepts the store's purchases of a hundred tokens.
    private static func sell(
        _ store: TestAppStore,
        in root: URL,
        _ settings: inout ServerSettings
    ) throws {
        let certificate = root.appending(path: "root.der")
        try Data(store.root).write(to: certificate)
        settings.appStore.bundleId = TestAppStore.bundle
        settings.appStore.appAppleId = Int(TestAppStore.appleID)
        settings.appStore.roots = [certificate.path]
        settings.appStore.products = ["tokens": .tokens(100)]
    }

    /// Returns the app's client on a device.
    ///
    /// Every device belongs to the same user, and the phone is the first.
    func client(
        _ name: String = "phone",
        _ configure: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        let folder = root.appending(path: name)
        var configuration = SanguineClient.Configuration(server: server)
        configuration.folder = folder
        configuration.transport = URLSessionTransport.patient
        configure(&configuration)
        if name != "phone" {
            try DeviceIdentityFile(in: root.appending(path: "phone")).copy(to: folder)
        }
        return try SanguineClient(configuration)
    }

    /// Returns the server's balance, read by a separate device.
    func balance() async throws -> Balance {
        let auditor = try client("auditor-\(UUID())")
        defer { auditor.close() }
        return try await auditor.refresh(.balance)
    }

    /// Returns the charges in the ledger, once nothing is held.
    ///
    /// Expects the ledger to agree with the balance, and each hold to be released once.
    func charges() async throws -> [Int64] {
        let auditor = try client("auditor-\(UUID())")
        defer { auditor.close() }
        let query = ValueQuery<ListPage<LedgerEntry>>("ledger", policy: .alwaysStale) { request in
            try await request.get("/v1/ledger", query: [URLQueryItem(name: "limit", value: "100")])
        }
        let page = try await auditor.refresh(query)
        let balance = try await auditor.refresh(.balance)
        #expect(!page.hasMore && balance.held == 0)
        let entries = Dictionary(grouping: page.items, by: \.kind).mapValues { $0.map(\.amount) }
        #expect(page.items.map(\.amount).reduce(0, +) == balance.available)
        let givenBack = (entries[.release] ?? []) + (entries[.expire] ?? [])
        #expect((entries[.hold] ?? []).map { -$0 }.sorted() == givenBack.sorted())
        return (entries[.capture] ?? []).map { -$0 }
    }

    /// Returns the server's charge for the call of a question, or 0 if the call never arrived.
    func charge(ofCall key: String) async throws -> Int64 {
        let auditor = try client("auditor-\(UUID())")
        defer { auditor.close() }
        var charge: Int64 = 0
        do throws(SanguineError) {
            charge = try await auditor.result(of: AskText.self, key: key).charged
        } catch {
            if error.code != "not_found" { throw error }
        }
        return charge
    }
}

extension AnswerModel {
    /// Waits for the whole answer.
    func whole() async throws -> FunctionResult<Output> {
        try await Task { try await self.finished() }.finished("the answer")
    }
}
