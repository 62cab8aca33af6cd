import FeedApp
import FeedModel
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The timeline of followed users and the own posts.
@Suite("Timeline of the feed", .bounded(.seconds(120)))
struct FeedTimelineTests {
    @Test func `the timeline has the posts of followed users, and the user's own ones`()
        async throws
    {
        try await FeedWorld.with { world in
            let crowd = try await world.crowd(3)
            let client = try world.client()
            let screen = try await world.screen(client)
            let following = await FeedScreen(client, .following, likes: screen.likes)
            await following.load()
            #expect(await following.posts.isEmpty)

            let ben = crowd[1].0
            let profile = await ProfileScreen(client, ben.profile)
            try await profile.load()
            try await profile.setFollowed(true)
            let mine = try await screen.publish("Mine")
            // Before the server has answered, and without following the own account.
            #expect(await following.posts.map(\.text) == ["Mine"])
            try await client.synchronize()
            await following.refresh()
            #expect(await following.posts.map(\.text) == ["Mine", "Post 1"])

            world.clock.advance(by: .seconds(1))
            let later = Post(id: .new(), "Later", by: ben.profile)
            try await ben.perform([Write(later)], from: 3, at: world.clock.now())
            await following.refresh()
            #expect(await following.posts.map(\.text) == ["Later", "Mine", "Post 1"])

            try await profile.setFollowed(false)
            try await client.synchronize()
            await following.refresh()
            #expect(await following.posts.map(\.text) == ["Mine"])
            try await following.delete(mine)
            #expect(await following.posts.isEmpty)
            client.close()
        }
    }

    @Test func `the timeline is shown without a network, with the user's new posts`()
        async throws
    {
        try await FeedWorld.with { world in
            let ben = try await world.crowd(1)[0].0
            let client = try world.client()
            _ = try await world.screen(client)
            let profile = await ProfileScreen(client, ben.profile)
            try await profile.load()
            try await profile.setFollowed(true)
            try await client.synchronize()
            let screen = await FeedScreen(client, .following)
            await screen.refresh()
            #expect(await screen.posts.map(\.text) == ["Post 0"])
            try await client.waitUntilIdle()
            client.close()

            let network = RecordedNetwork()
            network.disconnect()
            let again = try world.client { ($0.transport, $0.retries) = (network, false) }
            let shown = await FeedScreen(again, .following)
            #expect(await shown.posts.map(\.text) == ["Post 0"])
            try await shown.publish("Offline")
            #expect(await shown.posts.map(\.text) == ["Offline", "Post 0"])
            again.close()
        }
    }

    @Test func `a post in another user's name is not in the timelines of that user's followers`()
        async throws
    {
        try await FeedWorld.with { world in
            let (ana, eve) = (try await world.visitor("Ana"), try await world.visitor("Eve"))
            let client = try world.client()
            _ = try await world.screen(client)
            let profile = await ProfileScreen(client, ana.profile)
            try await profile.load()
            try await profile.setFollowed(true)
            try await client.synchronize()
            let forged = Post(id: .new(), "I am Ana.", by: ana.profile)
            try await eve.perform([Write(forged)], from: 2, at: world.clock.now())
            #expect(try await client.refresh(.feed(.timeline(Post.following))).isEmpty)
            _ = try await ana.post("Hello", at: world.clock.now())
            let posts = try await client.refresh(.feed(.timeline(Post.following)))
            #expect(posts.map(\.text) == ["Hello"])
            client.close()
        }
    }
}
