import FeedApp
import FeedModel
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Messages between two users, which no third user reads.
@Suite("Messages of the feed", .bounded(.seconds(120)))
struct FeedMessageTests {
    /// A user with a profile that the server has.
    private struct User: Sendable {
        let client: SanguineClient
        let me: Profile

        init(
            _ world: FeedWorld,
            _ name: String,
            _ configure: (inout SanguineClient.Configuration) -> Void = { _ in }
        ) async throws {
            client = try world.client(name, configure)
            try await ProfileScreen(client).save(name: name)
            try await client.synchronize()
            me = try #require(client.cached(.me))
        }

        @MainActor
        func conversation(with other: User) async -> ConversationScreen {
            let screen = ConversationScreen(client, with: other.me.id)
            await screen.load()
            return screen
        }
    }

    @Test func `a message is shown at once, and arrives while the other user reads`() async throws {
        try await FeedWorld.with { world in
            let (ana, ben) = (try await User(world, "Ana"), try await User(world, "Ben"))
            let (screen, other) = (
                await ana.conversation(with: ben), await ben.conversation(with: ana)
            )
            let inbox = await ConversationsScreen(ben.client)
            try await screen.send("Hello")
            #expect(await screen.messages.map(\.text) == ["Hello"])
            try await eventually("the message at Ben's", within: .seconds(60)) {
                await other.messages.map(\.text) == ["Hello"]
            }
            world.clock.advance(by: .milliseconds(1))
            try await other.send("Hi!")
            try await eventually("the answer at Ana's", within: .seconds(60)) {
                await screen.messages.map(\.text) == ["Hello", "Hi!"]
            }
            let isOwn = await MainActor.run { screen.messages.map { screen.isOwn($0) } }
            #expect(isOwn == [true, false])
            #expect(await inbox.conversations.map(\.last.text) == ["Hi!"])
            #expect(await inbox.conversations.map(\.isOwn) == [true])
            let outbox = await ConversationsScreen(ana.client)
            await outbox.load()
            #expect(await outbox.conversations.map(\.last.text) == ["Hi!"])
            #expect(await outbox.conversations.map { $0.profile?[Profile.name] } == ["Ben"])
            for user in [ana, ben] { user.client.close() }
        }
    }

    @Test func `a message that is written without a network is sent once when it returns`()
        async throws
    {
        try await FeedWorld.with { world in
            let network = RecordedNetwork()
            let ana = try await User(world, "Ana") { $0.transport = network }
            let ben = try await User(world, "Ben")
            let screen = await ana.conversation(with: ben)
            network.disconnect()
            try await screen.send("One")
            try await screen.send("Two")
            #expect(await Set(screen.messages.map(\.text)) == ["One", "Two"])
            let inbox = await ConversationsScreen(ana.client)
            #expect(await inbox.conversations.map(\.id) == [ben.me.id])
            network.lose(.response, of: "/v1/sync/push")
            network.connect()
            let list = ListQuery<Message>.messages(ana.me.id, ben.me.id)
            try await eventually("the messages at Ben's", within: .seconds(60)) {
                try await ben.client.refresh(list).count == 2
            }
            network.lose(nil)
            try await eventually("an empty outbox", within: .seconds(60)) {
                ana.client.outbox.summary.unsent == 0
            }
            let received = try await ben.client.refresh(list)
            #expect(received.count == 2)
            #expect(await Set(screen.messages.map(\.text)) == ["One", "Two"])
            for user in [ana, ben] { user.client.close() }
        }
    }

    @Test func `another user finds no message, by whichever way`() async throws {
        try await FeedWorld.with { world in
            let (ana, ben) = (try await User(world, "Ana"), try await User(world, "Ben"))
            let eve = try await User(world, "Eve")
            let screen = await ana.conversation(with: ben)
            try await screen.send("Secret")
            try await ana.client.synchronize()
            let message = try #require(await screen.messages.first)
            let query = ValueQuery<Message>.published(Message.self, message.id)
            #expect(try await ben.client.value(of: query).text == "Secret")

            let refusal = await #expect(throws: SanguineError.self) {
                try await eve.client.value(of: query)
            }
            #expect(refusal?.code == "not_found")
            let list = ListQuery<Message>.messages(ana.me.id, ben.me.id)
            #expect(try await eve.client.value(of: list).isEmpty)
            #expect(try await eve.client.value(of: ListQuery<Message>.newest).isEmpty)
            let visitor = try await world.visitor("Mallory")
            for request in ["ids=\(message.id)", "where.conversation=\(ana.me.id)", ""] {
                let page = try await visitor.page(of: "messages", query: request)
                #expect(!String(decoding: page, as: UTF8.self).contains("Secret"), "\(request)")
            }
            for user in [ana, ben, eve] { user.client.close() }
        }
    }

    @Test func `a message in another user's name is not shown`() async throws {
        try await FeedWorld.with { world in
            let (ana, ben) = (try await User(world, "Ana"), try await User(world, "Ben"))
            let eve = try await world.visitor("Eve")
            let account = try #require(ben.me.account)
            let forged = [ana.me.id, eve.profile].map {
                Message(id: .new(), "From \($0)", from: $0, to: ben.me.id, reader: account)
            }
            try await eve.perform(forged.map { Write($0) }, from: 2, at: world.clock.now())
            let screen = await ben.conversation(with: ana)
            let inbox = await ConversationsScreen(ben.client)
            await inbox.load()
            #expect(try await ben.client.value(of: ListQuery<Message>.newest).count == 2)
            #expect(await screen.messages.isEmpty)
            #expect(await inbox.conversations.map(\.id) == [eve.profile])
            for user in [ana, ben] { user.client.close() }
        }
    }

    @Test func `a message needs profiles of both users`() async throws {
        try await FeedWorld.with { world in
            let client = try world.client()
            let unnamed = await ConversationScreen(client, with: .new())
            await #expect(throws: FeedError.noProfile) { try await unnamed.send("Hello") }
            _ = try await world.screen(client)
            let unknown = await ConversationScreen(client, with: .new())
            await #expect(throws: FeedError.unknownProfile) { try await unknown.send("Hello") }
            #expect(await unknown.messages.isEmpty)
            client.close()
        }
    }
}
