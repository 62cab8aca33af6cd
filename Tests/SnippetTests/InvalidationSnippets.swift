import Foundation
import Sanguine
import SanguineTesting
import Synchronization
import TestSupport
import Testing

/// The samples of the guide to invalidation.
@Suite("Invalidation snippets", .bounded)
struct InvalidationSnippets {
    @Test func `an outdated value is invalidated in one line`() throws {
        let client = try Self.client()
        client.set(Profile(name: "Ada"), for: .profile("42"))

        client.invalidate(.profile("42"))  // this one
        client.invalidate(all: "profile")  // every profile
        client.invalidate(tag: "social")  // every query whose policy has the tag
        client.dependencyChanged("birthData")  // every query whose policy depends on it
        client.invalidateAll()

        #expect(client.cached(.profile("42"))?.name == "Ada")
    }

    @Test func `tags, dependencies and retention are part of the policy`() {
        let chart = Policy.untilChanged("birthData").stored(.onDisk).tagged("charts")
        let horoscope = Policy.untilMidnight.stored(.onDisk).depends(onSettings: "birth")
        let news = Policy.fresh(for: .minutes(5)).stored(.onDisk).kept(for: .hours(48))

        #expect(chart.dependencies == ["birthData"])
        #expect(chart.tags == ["charts"])
        #expect(horoscope.dependencies == ["$account.settings.birth"])
        #expect(news.keep == .hours(48))
    }

    @Test func `an answer can be stored as another query's value`() throws {
        let client = try Self.client()
        let profile = Profile(name: "A.")

        client.set(profile, for: .profile("42"))  // as if it had just been fetched
        client.update(.profile("42")) { $0.name = "Ada" }  // keeps its age

        #expect(client.cached(.profile("42"))?.name == "Ada")
    }

    @Test func `a push can update lists and ranges`() throws {
        let client = try Self.client()
        let (pushed, newest, cursor) = (Track(id: "2"), [Track(id: "1")], "1")
        let today = CalendarDay(position: 0)
        let good = Mood(score: 5)

        client.set(ListPage(items: newest, hasMore: true, nextCursor: cursor), for: .tracks)
        client.update(.tracks) { $0.insert(pushed, at: 0) }  // rows from the backend
        client.set([today: good], for: .moods, in: today...today)
        client.update(.moods, at: today) { $0 = good }  // nil stands for no value

        #expect(client.cached(.tracks)?.map(\.id) == ["2", "1"])
        #expect(client.cached(.moods, in: today...today)[today] == good)
    }

    @Test func `a closure receives every change`() throws {
        let client = try Self.client()
        let shown = Mutex<[String]>([])
        @Sendable func show(_ text: String) { shown.withLock { $0.append(text) } }

        let following = client.observe(.profile("42")) { state in
            show(state.value?.name ?? "…")
        }

        client.set(Profile(name: "Ada"), for: .profile("42"))
        #expect(shown.withLock { $0.first } == "…")
        #expect(shown.withLock { $0.last } == "Ada")
        withExtendedLifetime(following) {}
    }

    private static func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = ScriptedTransport { _ in .json(Profile(name: "Ada")) }
        return try SanguineClient(configuration)
    }
}
