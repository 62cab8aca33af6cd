import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

struct Post: Codable, Sendable, Equatable, Identifiable {
    var id: String
}

enum FeedKind: String, Codable, Sendable {
    case forYou
    case following
}

private struct SearchAnswer: Codable, Sendable {
    var posts: [Post]
    var next: String?
}

extension ListQuery where Item == Post {
    static func feed(_ kind: FeedKind) -> Self {
        let policy = Policy.fresh(for: .seconds(30)).stored(.onDisk)
        return ListQuery("feed", kind, path: "feed/\(kind)", policy: policy)
    }
}

extension ListQuery where Item == Post {
    static func search(_ words: String) -> Self {
        ListQuery("search", words, policy: .fresh(for: .minutes(1)), size: 50) { request, page in
            let answer: SearchAnswer = try await request.get(
                "search",
                query: [
                    URLQueryItem(name: "q", value: words),
                    URLQueryItem(name: "count", value: String(page.limit)),
                    URLQueryItem(name: "after", value: page.cursor),
                ]
            )
            let next = answer.next
            return ListPage(items: answer.posts, hasMore: next != nil, nextCursor: next)
        }
    }
}

/// The samples of the guide to lists.
@Suite("List snippets", .bounded)
struct ListSnippets {
    @MainActor
    @Test func `a list is shown, continued and refreshed`() async throws {
        let client = try Self.client()
        let post = Post(id: "1")

        let feed = client.model(.feed(.forYou))  // @Observable: items, hasMore, phase, error, asOf
        await feed.loadNext()
        feed.itemAppeared(post.id)  // near the end, loads the next page
        await feed.refresh()

        #expect(feed.items == [post])
        #expect(!feed.hasMore)
    }

    @Test func `a list can be read without a view`() async throws {
        let client = try Self.client()

        try await client.value(of: .feed(.forYou))  // unless it is fresh per its policy
        try await client.loadNext(.feed(.forYou))
        let posts = client.snapshot(of: .feed(.forYou)).items

        #expect(posts == [Post(id: "1")])
    }

    @Test func `a closure can load a list from any backend`() async throws {
        let network = ScriptedTransport { _ in
            .json(SearchAnswer(posts: [Post(id: "1")], next: nil))
        }
        let client = try Self.client(network)
        try await client.value(of: .search("swift"))

        #expect(client.snapshot(of: .search("swift")).items == [Post(id: "1")])
        let query = network.requests.first?.url.query()
        #expect(query?.hasPrefix("q=swift&count=50") == true)
    }

    private static func client(
        _ network: ScriptedTransport = ScriptedTransport { _ in
            .json(ListPage(items: [Post(id: "1")]))
        }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        return try SanguineClient(configuration)
    }
}
