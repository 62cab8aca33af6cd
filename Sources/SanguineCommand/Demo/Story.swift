import Foundation
import Logging
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer

/// A guest's first minutes, with checks of the expected results.
struct Story: Sendable {
    /// An unexpected result.
    struct Surprise: Error, CustomStringConvertible {
        let description: String
    }

    let folder: URL
    let upstream: String
    let latency: Duration
    let timeline: Timeline

    private var serverFolder: URL { folder.appending(path: "server", directoryHint: .isDirectory) }
    private var phone: URL { folder.appending(path: "phone", directoryHint: .isDirectory) }

    func play() async throws {
        try Output.write(
            "  Sanguine: a guest's first minutes, with a model that takes \(latency.spoken)"
        )
        try await withServer { server in
            let client = try makeClient(of: server)
            try await open(client)
            try await ask(client)
            try await askThreeAtOnce(client)
            try await overreach(client)
            client.close()
        }
        try await offline()
        try await withServer { try await comeBack(to: $0) }
        try await verify()
    }

    /// Runs a server on the story's data, and calls the body with its address.
    private func withServer(
        _ body: @escaping @Sendable (URL) async throws -> Void
    ) async throws {
        var settings = ServerSettings()
        settings.http.port = 0
        settings.upstream.url = upstream
        try await SQLiteStorage.with(folder: serverFolder) { storage in
            let server = try await SanguineServer(
                storage: storage,
                keys: try KeyFile.loadOrCreate(in: serverFolder),
                settings: settings,
                logger: Logger(label: "sanguine.demo")
            )
            try await server.serve { try await body($0.http) }
        }
    }

    // MARK: Chapters

    private func open(_ client: SanguineClient) async throws {
        try timeline.chapter("The app opens for the first time")
        try expect(client.cached(.balance) == nil, "A new device already has a balance.")
        try timeline.show("first frame: no balance yet, and nothing blocks")
        let balance = try await client.value(of: .balance)
        try expect(balance.available == 100, "A guest starts with \(balance.available) tokens.")
        try timeline.show(
            "a guest account was created; the screen shows \(balance.available) tokens"
        )
    }

    private func ask(_ client: SanguineClient) async throws {
        try timeline.chapter("A question")
        let before = try balance(client)
        let asked = timeline.elapsed
        async let answer = client.result(of: Ask(question: "Why is the sky blue?"))
        let shown = try await change(from: before, client)
        let delay = timeline.elapsed - asked
        try timeline.show(
            "asked; \(Timeline.milliseconds(delay)) later the screen shows \(shown.available)"
        )
        let result = try await answer
        let waited = timeline.elapsed - asked
        try timeline.show("“\(result.output.prefix(60))…”")
        let settled = try balance(client)
        try expect(
            settled.available == before.available - result.charged,
            "The charge is not shown."
        )
        try expect(result.tokensRemaining == settled.available, "Answer and screen differ.")
        try timeline.show("it cost \(result.charged); the screen shows \(settled.available)")
        try timeline.show(
            "waiting for the server would have shown the change \(Timeline.seconds(waited)) late"
        )
        timeline.saved(waited - delay)
    }

    private func askThreeAtOnce(_ client: SanguineClient) async throws {
        try timeline.chapter("Three questions at once, while the balance is being reloaded")
        let before = try balance(client)
        let seen = Seen()
        let watcher = Task {
            for await state in client.updates(of: .balance) {
                guard let value = state.value, seen.add(value.available) else { continue }
                // If this write fails, the next chapter's write throws.
                try? timeline.show("the screen shows \(value.available)")
            }
        }
        defer { watcher.cancel() }
        let asked = timeline.elapsed
        let charged = try await withThrowingTaskGroup(of: Int64.self) { group in
            for topic in ["tea", "the sea", "patience"] {
                group.addTask {
                    try await client.result(of: Ask(question: "Tell me about \(topic).")).charged
                }
            }
            group.addTask {
                _ = try await client.refresh(.balance)
                return 0
            }
            return try await group.reduce(0, +)
        }
        let settled = try balance(client)
        try expect(
            settled.available == before.available - charged && settled.held == 0,
            "\(before.available) minus \(charged) is shown as \(settled.available)."
        )
        try expect(seen.fellThenRose, "The number went up and down: \(seen.all).")
        try timeline.show(
            "all three answered, \(charged) charged; the number never went the wrong way"
        )
        timeline.saved(timeline.elapsed - asked)
    }

    private func overreach(_ client: SanguineClient) async throws {
        try timeline.chapter("A call that fails")
        let before = try balance(client)
        do throws(SanguineError) {
            _ = try await client.call(Echo(text: ""))
            throw .notConfigured("a server that refuses an empty text")
        } catch {
            guard case .problem(let problem) = error, problem.code == .invalidContent else {
                throw error
            }
            try timeline.show("refused: \(problem.detail)")
        }
        // A refresh may increase the feed number in the meantime, so only the visible values are
        // compared.
        let after = try balance(client)
        try expect(
            after.available == before.available && after.held == before.held,
            "A refused call changed the balance."
        )
        try timeline.show("its hold was released: the screen shows \(before.available)")
    }

    private func offline() async throws {
        try timeline.chapter("The server is down, and the app is restarted")
        let client = try makeClient(of: URL(string: "http://127.0.0.1:1"))
        defer { client.close() }
        let asked = timeline.elapsed
        let shown = try balance(client)
        let state = client.snapshot(of: .balance)
        let age = LastKnown.age(of: state)
        try timeline.show(
            "first frame, \(Timeline.milliseconds(timeline.elapsed - asked)): "
                + "\(shown.available) tokens, known \(age.spoken) ago"
        )
        do throws(SanguineError) {
            _ = try await client.refresh(.balance)
            throw .notConfigured("a server that is down")
        } catch {
            guard case .transport = error else { throw error }
        }
        try expect(try balance(client) == shown, "A failed reload removed the last value.")
        try timeline.show("the reload fails; the last value stays")
    }

    private func comeBack(to server: URL) async throws {
        try timeline.chapter("The server is back")
        let client = try makeClient(of: server)
        defer { client.close() }
        let remembered = try balance(client)
        _ = try await client.refresh(.balance)
        let confirmed = try balance(client)
        try expect(
            confirmed.available == remembered.available,
            "The number changed during the restart."
        )
        try timeline.show("same guest, same number: \(confirmed.available)")
    }

    private func verify() async throws {
        try timeline.chapter("The books")
        let inspection = try SQLiteStorage.inspect(folder: serverFolder)
        let report = try await inspection.examine().ledger
        await inspection.close()
        try expect(report.differences.isEmpty, "The ledger does not add up: \(report.differences).")
        try expect(report.accounts == 1, "There are \(report.accounts) accounts instead of one.")
        try timeline.show("\(report.transfers) entries recomputed: every balance is their sum")
    }

    // MARK: Helpers

    private func makeClient(of server: URL?) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration(server: server)
        configuration.folder = phone
        return try SanguineClient(configuration)
    }

    private func balance(_ client: SanguineClient) throws -> Balance {
        guard let balance = client.cached(.balance) else {
            throw Surprise(description: "The balance is not cached.")
        }
        return balance
    }

    /// Waits for the first different balance.
    private func change(from before: Balance, _ client: SanguineClient) async throws -> Balance {
        for await state in client.updates(of: .balance) {
            if let value = state.value, value.available != before.available { return value }
        }
        throw Surprise(description: "The balance never changed.")
    }

    private func expect(_ condition: Bool, _ surprise: String) throws {
        guard condition else { throw Surprise(description: surprise) }
    }
}
