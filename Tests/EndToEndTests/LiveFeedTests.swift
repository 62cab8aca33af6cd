import Foundation
import SanguineModel
import Testing

@testable import Sanguine

extension EndToEnd {
    @Suite("Live feed", .timeLimit(.minutes(15)))
    struct LiveFeedTests {
        @Test func `a commit reaches the client while the answer goes on, and anew`()
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
                feed.restart()
                try await spend(client)
                let second = try await received.first { $0.count > 1 ? $0[1] : nil }
                #expect(second.since == first.next)
                #expect(second.next == first.next + 1)
            }
        }

        private func liveFeed(
            _ client: SanguineClient,
            _ start: Int64,
            _ received: Watched<[SyncState.FeedBatch]>,
            _ live: Watched<Bool>
        ) -> LiveFeed {
            let call = client.call
            return LiveFeed(
                call: call,
                environment: LiveFeed.Environment(
                    lifecycle: AlwaysForeground(),
                    connectivity: AlwaysOnline(),
                    delay: ContinuousClock(),
                    random: .system
                ),
                handlers: LiveFeed.Handlers(
                    place: {
                        let position = received.value.last?.next ?? start
                        return LiveFeed.Place(position: position, epoch: call.authorizer.epoch)
                    },
                    receive: { batch, _ in received.update { $0.append(batch) } },
                    pull: {},
                    setLive: { isLive in live.update { $0 = isLive } }
                )
            )
        }

        private func spend(_ client: SanguineClient) async throws {
            _ = try await client.call.call(
                "POST",
                "/v1/spend",
                headers: ["Idempotency-Key": UUID().uuidString],
                json: Data(#"{"amount":1,"reason":"test"}"#.utf8),
                as: BalanceAnswer.self
            )
        }
    }
}
