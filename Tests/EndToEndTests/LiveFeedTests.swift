import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine
@testable import SanguineCommand

extension EndToEnd {
    @Suite("Live feed", .bounded(.seconds(120)))
    struct LiveFeedTests {
        @Test func `a commit reaches the client live, and again after a reconnect`()
            async throws
        {
            try await LocalServer.with { server in
                let client = try server.client()
                defer { client.close() }
                let start = try await client.value(of: .balance).head
                let received = Watched<[SyncState.FeedBatch]>([])
                let live = Watched(false)
                let feed = liveFeed(client, start, received, live)
                feed.start()
                defer { feed.close() }
                _ = try await live.first { $0 ? true : nil }
                try await spend(client)
                let first = try await received.first { $0.first }
                #expect(first.since == start)
                #expect(first.changes.map(\.collection) == ["$balance"])
                #expect(first.isComplete)
                feed.close()
                let again = liveFeed(client, start, received, live)
                again.start()
                defer { again.close() }
                try await spend(client)
                let second = try await received.first { $0.count > 1 ? $0[1] : nil }
                #expect(second.since == first.next)
                #expect(second.next == first.next + 1)
            }
        }

        @Test func `another device's changes are shown live, without a pull`() async throws {
            try await TemporaryFolder.with { folder in
                try await LocalServer.with { server in
                    var configuration = SanguineClient.Configuration.of(
                        port: server.port,
                        folder: folder
                    )
                    configuration.recordPolling = nil
                    let client = try SanguineClient(configuration)
                    defer { client.close() }
                    try await client.synchronize()
                    let shown = Watched<[[String]]>([])
                    let reader = follow(client, shown)
                    defer { reader.cancel() }
                    try await eventually("a live connection", within: .seconds(30)) {
                        server.liveConnections == 1
                    }
                    let pulls = try server.requests("GET", "/v1/sync/pull")

                    let other = try await OtherDevice(folder, server.api)
                    try await other.push("record.create", ["fields": ["text": "hello"]])
                    try await shown.when { $0.last == ["hello"] }
                    try await other.push("record.set", ["fields": ["text": "good day"]])
                    try await shown.when { $0.last == ["good day"] }
                    try await other.push("record.delete", [:])
                    try await shown.when { $0.last == [] }

                    #expect(shown.value == [[], ["hello"], ["good day"], []])
                    #expect(try server.requests("GET", "/v1/sync/pull") == pulls)
                }
            }
        }

        @Test func `another device's spends are shown live, without a request`() async throws {
            try await TemporaryFolder.with { folder in
                try await LocalServer.with { server in
                    let configuration = SanguineClient.Configuration.of(
                        port: server.port,
                        folder: folder
                    )
                    let client = try SanguineClient(configuration)
                    defer { client.close() }
                    let shown = Watched<[Int64]>([])
                    let following = client.observe(.balance) { state in
                        if let balance = state.value {
                            shown.update { $0.append(balance.available) }
                        }
                    }
                    try await eventually("a live connection", within: .seconds(30)) {
                        server.liveConnections == 1
                    }
                    try await shown.when { $0.last == 100 }
                    let asked = try server.requests("GET", "/v1/balance")
                    let other = try await server.api.guest(of: folder)
                    _ = try await server.api.spend(7, "tea", key: "one", as: other)
                    try await shown.when { $0.last == 93 }
                    _ = try await server.api.spend(3, "tea", key: "two", as: other)
                    try await shown.when { $0.last == 90 }
                    #expect(try server.requests("GET", "/v1/balance") == asked)
                    withExtendedLifetime(following) {}
                }
            }
        }

        private func follow(
            _ client: SanguineClient,
            _ shown: Watched<[[String]]>
        ) -> Task<Void, Never> {
            let notes = RecordQuery(reading: Note.collection) { records in
                records.records(Note.self).map(\.text)
            }
            let updates = client.updates(of: notes)
            return Task { for await texts in updates { shown.update { $0.append(texts) } } }
        }

        private func liveFeed(
            _ client: SanguineClient,
            _ start: Int64,
            _ received: Watched<[SyncState.FeedBatch]>,
            _ live: Watched<Bool>
        ) -> LiveFeed {
            let call = client.users.current.cacheScope.attempts.backend.call
            return LiveFeed(
                call: call,
                environment: LiveFeed.Environment(
                    lifecycle: AlwaysForeground(),
                    connectivity: AlwaysOnline(),
                    delay: ContinuousClock(),
                    random: .system
                ),
                handlers: LiveFeed.Handlers(
                    position: { FeedMark(number: received.value.last?.next ?? start) },
                    receive: { batch in received.update { $0.append(batch) } },
                    pull: {},
                    setLive: { isLive in live.update { $0 = isLive } }
                )
            )
        }

        private func spend(_ client: SanguineClient) async throws {
            let call = client.users.current.cacheScope.attempts.backend.call
            _ = try await call.call(
                "POST",
                "/v1/spend",
                headers: ["Idempotency-Key": UUID().uuidString],
                json: Data(#"{"amount":1,"reason":"test"}"#.utf8),
                as: BalanceAnswer.self
            )
        }
    }
}

/// Another device of the account, which edits one note.
private final class OtherDevice: Sendable {
    private let guest: API.Guest
    private let api: API
    private let pushed = Watched<Int64>(0)

    /// Signs in with the identity of the client whose state is in the folder.
    init(_ folder: URL, _ api: API) async throws {
        self.api = api
        guest = try await api.guest(of: folder)
    }

    func push(_ mutator: String, _ arguments: [String: JSONValue]) async throws {
        let number = pushed.update { count in
            count += 1
            return count
        }
        let note: [String: JSONValue] = ["collection": "notes", "id": "a-note"]
        let operation = PushedOperation(
            id: Identifier(at: SystemWallClock().now()),
            sequence: number,
            lane: "notes",
            mutator: mutator,
            arguments: .object(note.merging(arguments) { _, own in own })
        )
        let request = PushRequest(device: "another-device-of-the-guest", operations: [operation])
        let answer = try await api.send(.POST, "/v1/sync/push", token: guest.token, json: request)
        let result = try answer.decode(PushAnswer.self).results.first
        guard result?.status == .applied else { throw Unexpected("Not applied: \(answer.text)") }
    }
}
