import FeedApp
import FeedModel
import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The rows of the README about requests that are cancelled, joined and sent in advance.
@Suite("Requests of the feed", .bounded(.seconds(120)))
struct FeedFlightTests {
    @Test func `a view that goes away cancels its request unless another caller waits for it`()
        async throws
    {
        try await FeedWorld.with { world in
            _ = try await world.crowd(3)
            let network = GatedNetwork()
            let client = try world.client { $0.transport = network }
            _ = try await client.value(of: .account)
            network.hold { $0.isForRecords(of: "profiles") }
            let screen = await SearchScreen(client)
            await MainActor.run { screen.text = "p" }
            try await network.waitForHeld(1)
            // The next letter replaces the list.
            await MainActor.run { screen.text = "pe" }
            try await eventually("the end of the first search") { network.cancelled == 1 }
            try await network.waitForHeld(1)

            // Another caller of the second list keeps its request.
            let reads = Self.searches(of: client)
            let other = Task { try await client.value(of: .search("pe")) }
            try await eventually("the other caller") { Self.searches(of: client) > reads }
            await MainActor.run { screen.text = "" }
            network.release()
            #expect(try await other.finished().count == 3)
            let sent = network.arrived.count
            #expect(sent == 2 && network.cancelled == 1)
            printFigure(
                "K9",
                ours: """
                    \(network.cancelled) of \(sent) requests cancelled, the one without another \
                    caller
                    """
            )
            client.close()
        }
    }

    /// The number of reads of searches.
    private static func searches(of client: SanguineClient) -> Int {
        client.metrics.summary().queries.filter { $0.name.hasPrefix("records:profiles(") }
            .reduce(0) { $0 + $1.reads }
    }

    @Test func `the authors of a page are looked up in one request`() async throws {
        try await FeedWorld.with { world in
            let crowd = try await world.crowd(20)
            let (recorded, delay) = (RecordedNetwork.withoutLive, ManualClock())
            let client = try world.slowClient(recorded, delay)
            let screen = await FeedScreen(client)
            _ = try await delay.passing(through: recorded) { await screen.load() }
            // As 20 rows that appear in the same frame.
            #expect(await screen.authorNames.count == 20)
            // A machine that is busy starts the last of them after the window of the first.
            try await eventually("20 look-ups wait", within: TestingLimits.longestWait) {
                client.queries.entries.user.attempts.backend.batches.askerCount == 20
            }
            let time = try await delay.passing(waitsUpTo: FeedWorld.latency, through: recorded) {
                try await eventually("all authors", within: TestingLimits.longestWait) {
                    await screen.authorNames.allSatisfy { $0 != nil }
                }
            }
            .time
            let names = await screen.authorNames
            #expect(names == (0..<crowd.count).reversed().map { "Person \($0)" })
            let requests = recorded.lists(of: "profiles")
            #expect(requests == 1)
            printFigure(
                "K11",
                ours: "\(names.count) look-ups, \(requests) request, \(time.milliseconds)",
                theirs: "1 request"
            )
            client.close()
        }
    }

    @Test func `another user's profile is not shown as the author of a post`() async throws {
        try await FeedWorld.with { world in
            let (ana, eve) = (
                try await world.visitor("Ana"), try await world.visitor("Eve")
            )
            let forged = Post(id: .new(), "I am Ana.", by: ana.profile)
            try await eve.perform([Write(forged)], from: 2, at: world.clock.now())
            let client = try world.client()
            let screen = await FeedScreen(client)
            await screen.load()
            let post = try #require(await screen.posts.first)
            #expect(post.author == eve.account.description)
            _ = try await client.value(of: .card(ana.profile))
            #expect(await screen.author(of: post) == nil)
            client.close()
        }
    }

    @Test func `the next page is there before its first row is reached`() async throws {
        try await FeedWorld.with { world in
            _ = try await world.crowd(50)
            let network = RecordedNetwork.withoutLive
            let client = try world.client { $0.transport = network }
            let screen = await FeedScreen(client)
            await screen.load()
            var ahead: [Int] = []
            for page in 1...2 {
                let rows = await screen.posts
                try #require(rows.count == 20 * page)
                // The reader is in the middle of the page.
                await MainActor.run { screen.appeared(rows[20 * page - 10]) }
                try await eventually("a page ahead of row \(20 * page)") {
                    await screen.posts.count > 20 * page
                }
                ahead.append(await screen.posts.count - 20 * page)
            }
            #expect(ahead == [20, 10])
            #expect(network.lists(of: "posts") == 3)
            printFigure(
                "K12",
                ours: """
                    \(ahead.map(String.init).joined(separator: " and ")) rows there before the \
                    reader reached them
                    """
            )
            client.close()
        }
    }

    @Test func `a visible picture is requested before those that are loaded in advance`()
        async throws
    {
        try await FeedWorld.with { world in
            try await world.publish((0..<12).map { Drawing($0, width: 40, height: 30) })
            let network = GatedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await FeedScreen(client)
            await screen.refresh()
            let posts = await screen.posts
            try #require(posts.count == 12)

            network.hold { $0.isForFile() }
            await MainActor.run { screen.appeared(posts[0]) }
            // Two of the slots are for pictures in advance.
            try await network.waitForHeld(2)
            let picture = await screen.picture(of: posts[11])
            await picture.appear()
            try await network.waitForHeld(3)
            let third = try #require(network.arrived.dropFirst(2).first)
            let file = try #require(posts[11].photo)
            #expect(third.url.path().hasSuffix(file))
            // Data does not wait for pictures.
            #expect(try await client.refresh(.feed()).count == 12)
            network.release()
            try await eventually("the visible picture") { await picture.phase == .ready }
            var others: [String] = []
            try await eventually("the other ten pictures: \(others)") {
                others = network.recorded.requests.filter { $0.isForFile() }
                    .map(\.url.lastPathComponent).filter { $0 != file }
                return others.count == 10
            }
            let place = network.arrived.prefix { !$0.url.path().hasSuffix(file) }.count + 1
            let later = 10 - (place - 1)
            #expect(place == 3)
            printFigure(
                "K14",
                ours: """
                    the visible picture is request \(place), before \(later) pictures that are \
                    loaded in advance
                    """
            )
            client.close()
        }
    }
}
