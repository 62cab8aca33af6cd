import FeedApp
import FeedModel
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The feed without a network, and with one that loses, duplicates, delays and breaks off.
@Suite("Feed on a bad network", .bounded(.seconds(120)))
struct FeedNetworkTests {
    @Test func `a first launch offline is usable, and its posts are published once`() async throws {
        try await FeedWorld.with { world in
            let network = RecordedNetwork()
            network.disconnect()
            // Otherwise a read is sent three times.
            let client = try world.client { ($0.transport, $0.retries) = (network, false) }
            let screen = try await world.screen(client)
            await screen.load()
            #expect(await screen.posts.isEmpty)
            let picture = try await screen.publish("Picture", photo: Drawing(1).photo)
            world.clock.advance(by: .milliseconds(1))
            let post = try await screen.publish("Hello")
            try await screen.likes.set(true, of: post)
            #expect(await screen.posts.map(\.text) == ["Hello", "Picture"])
            #expect(await screen.authorNames == ["Defne", "Defne"])
            // The picture is in the first frame.
            #expect(await screen.picture(of: picture).phase == .ready)
            let isLiked = await screen.likes.contains(post)
            #expect(await screen.likes.count(of: post) == 1 && isLiked)

            network.lose(.response, of: "/v1/sync/push")
            network.connect()
            // The server has it, but the app does not know.
            let other = try world.client("tablet")
            try await eventually("the post on the server", within: .seconds(30)) {
                try await other.refresh(.feed()).count == 2
            }
            network.lose(nil)
            try await eventually("an empty outbox", within: .seconds(30)) {
                client.outbox.summary.unsent == 0
            }
            await screen.likes.settled()
            let rows = try await other.refresh(.feed())
            #expect(rows.map(\.text) == ["Hello", "Picture"] && rows.map(\.likes) == [1, 0])
            let file = try #require(rows.last?.photo)
            #expect(try await other.images.image(.file(file)).width > 0)
            for device in [client, other] { device.close() }
        }
    }

    @Test func `a start without a network shows the last posts and their authors`() async throws {
        try await FeedWorld.with { world in
            _ = try await world.crowd(25)
            let client = try world.client()
            let screen = await FeedScreen(client)
            await screen.load()
            #expect(await screen.authorNames.count == 20)
            try await eventually("the authors") {
                await screen.authorNames.allSatisfy { $0 != nil }
            }
            let names = await screen.authorNames
            try await client.waitUntilIdle()
            client.close()

            let network = RecordedNetwork()
            network.disconnect()
            let again = try world.client { $0.transport = network }
            let start = ContinuousClock.now
            let shown = await FeedScreen(again).authorNames
            let time = ContinuousClock.now - start
            #expect(shown == names && shown.count == 20)
            print("a start without a network shows \(shown.count) posts in \(time.milliseconds)")
            again.close()
        }
    }

    @Test func `a like is shown at once, and its number never goes back`() async throws {
        try await FeedWorld.with { world in
            let crowd = try await world.crowd(1)
            let network = GatedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = try await world.screen(client)
            await screen.load()
            let post = crowd[0].1
            let row = try #require(await screen.posts.first { $0.id == post.id })
            // A refresh that began before the like is answered after it.
            network.hold { $0.isForRecords(of: "posts") }
            let refresh = Task { await screen.refresh() }
            try await network.waitForHeld(1)
            try await screen.likes.set(true, of: row)
            var shown = [await screen.likes.count(of: row)]
            try await eventually("the server's answer") { client.outbox.summary.unsent == 0 }
            shown.append(await screen.likes.count(of: row))
            network.release()
            try await refresh.finished()
            try await Task { await screen.likes.settled() }.finished("the like in the list")
            let settled = try #require(await screen.posts.first { $0.id == post.id })
            shown.append(await screen.likes.count(of: settled))
            #expect(shown == [1, 1, 1] && settled.likes == 1)

            try await screen.likes.set(false, of: settled)
            #expect(await screen.likes.count(of: settled) == 0)
            try await Task { await screen.likes.settled() }.finished("the end of the like")
            let last = try #require(await screen.posts.first { $0.id == post.id })
            #expect(await screen.likes.count(of: last) == 0 && last.likes ?? 0 == 0)
            client.close()
        }
    }

    @Test func `a like has the same number in all lists`() async throws {
        try await FeedWorld.with { world in
            let (ana, post) = try await world.crowd(1)[0]
            let client = try world.client()
            let screen = try await world.screen(client)
            let other = await FeedScreen(client, .profile(ana.profile), likes: screen.likes)
            await screen.load()
            await other.load()
            let rows = [await screen.posts.first, await other.posts.first].compactMap(\.self)
            #expect(rows.map(\.id) == [post.id, post.id])
            try await screen.likes.set(true, of: rows[0])
            #expect(await other.likes.count(of: rows[1]) == 1)
            try await Task { await screen.likes.settled() }.finished("the like in both lists")
            let counts = [await screen.posts.first?.likes, await other.posts.first?.likes]
            #expect(counts == [1, 1])
            client.close()
        }
    }

    @Test func `posts that appear while a reader scrolls are neither repeated nor skipped`()
        async throws
    {
        try await FeedWorld.with { world in
            let crowd = try await world.crowd(30)
            let network = RecordedNetwork.withoutLive
            let client = try world.client { $0.transport = network }
            let screen = await FeedScreen(client)
            await screen.load()
            for number in 1...5 {
                world.clock.advance(by: .milliseconds(1))
                let post = Post(id: .new(), "New \(number)", by: crowd[0].0.profile)
                let first = Int64(2 + number)
                try await crowd[0].0.perform(
                    [Write(post)],
                    from: first,
                    at: world.clock.now()
                )
            }
            await screen.loadNext()
            #expect(await screen.posts.map(\.text) == (0..<30).reversed().map { "Post \($0)" })
            #expect(await !screen.hasMore)
            // At the end, nothing is requested.
            let requests = network.lists(of: "posts")
            await screen.loadNext()
            #expect(network.lists(of: "posts") == requests)
            await screen.refresh()
            let rows = await screen.posts
            #expect(rows.count == 35)
            #expect(rows.first?.text == "New 5")
            client.close()
        }
    }

    @Test func `followers who leave at the same time are all discounted`() async throws {
        try await FeedWorld.with { world in
            let star = try await world.visitor("Star")
            let fans = try await concurrently(12) { try await world.visitor("Fan \($0)") }
            for isFollowing in [true, false] {
                let leaving = isFollowing ? fans : Array(fans.prefix(9))
                let now = world.clock.now()
                _ = try await concurrently(leaving.count) { number in
                    let fan = leaving[number]
                    let change = star.followed(by: fan.profile, isFollowing)
                    try await fan.perform([change], from: isFollowing ? 2 : 3, at: now)
                }
            }
            let client = try world.client()
            let profile = try await client.value(of: .profile(star.profile))
            let left = try await client.value(of: .followers(of: star.profile))
            #expect(profile.followers == 3 && left.count == 3)
            client.close()
        }
    }

    @Test func `a like of a post that is gone is taken back`() async throws {
        try await FeedWorld.with { world in
            let (ana, post) = try await world.crowd(1)[0]
            let client = try world.client()
            let screen = try await world.screen(client)
            await screen.load()
            try await ana.perform(
                [DeleteRecord(Post.self, post.id)],
                from: 3,
                at: world.clock.now()
            )
            let row = try #require(await screen.posts.first)
            try await screen.likes.set(true, of: row)
            try await eventually("the refusal") {
                client.outbox.refused.map(\.problem.code) == [.notFound]
            }
            try await Task { await screen.likes.settled() }.finished("the refused like")
            #expect(await !screen.likes.contains(row))
            #expect(await screen.likes.count(of: row) == 0)
            client.close()
        }
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func `posts, likes and follows over a bad network take effect once`(seed: UInt64) async throws {
        try await FeedWorld.with { world in
            let ana = try await world.visitor("Ana")
            let target = try await ana.post("Like me.", at: world.clock.now())
            let delay = ManualClock()
            let network = FaultyNetwork(URLSessionTransport.patient, seed: seed, clock: delay)
            let client = try world.client { ($0.transport, $0.delay) = (network, delay) }
            let star = await ProfileScreen(client, ana.profile)
            _ = try await delay.advancing {
                _ = try await client.value(of: .account)
                try await star.load()
            }
            network.faults = .rough
            let screen = try await world.screen(client)
            let own = [
                try await screen.publish("One"), try await screen.publish("Two"),
            ]
            try await screen.likes.set(true, of: target)
            try await star.setFollowed(true)
            try await screen.delete(own[0])
            try await delay.advancing(within: .seconds(30)) {
                try await eventually("an empty outbox, \(network)", within: .seconds(30)) {
                    client.outbox.summary.unsent == 0
                }
            }
            network.faults = .none
            world.clock.advance(by: .seconds(5))
            let reader = try world.client("tablet")
            let rows = try await reader.value(of: .feed())
            #expect(Set(rows.map(\.text)) == ["Two", "Like me."], "\(network)")
            #expect(rows.first { $0.id == target.id }?.likes == 1, "\(network)")
            let profile = try await reader.value(of: .profile(ana.profile))
            #expect(profile.followers == 1 && client.outbox.refused.isEmpty, "\(network)")
            for device in [client, reader] { device.close() }
        }
    }
}
