import Foundation
import NIOCore
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Live pages", .bounded)
struct LivePagesTests {
    private let account = Identifier.new()

    private func page(
        _ feed: ScriptedFeed,
        after number: Int64,
        limit: Int = 256
    ) async throws -> LivePage {
        let position = FeedPosition(number: number)
        let part = try await feed.read(account, after: position, limit: limit)
        return LivePage(part, after: position)
    }

    private func text(_ page: LivePage) -> String { String(buffer: page.bytes) }

    @Test func `a change is one event with its number, its operation's end and the head`()
        async throws
    {
        let feed = ScriptedFeed()
        feed.commit(2)
        let first = text(try await page(feed, after: 0)).components(separatedBy: "\n\n")[0]
        let lines = first.components(separatedBy: "\n")
        #expect(Array(lines.prefix(2)) == ["event: change", "id: 1"])
        #expect(
            lines.last == """
                data: {"collection":"notes","deleted":false,"head":2,"id":"n1","seq":1,\
                "through":2,"value":{"text":"a"}}
                """
        )
    }

    @Test func `numbers without a record advance the position without an event`() async throws {
        let feed = ScriptedFeed()
        feed.commit()
        feed.skip()
        #expect(text(try await page(feed, after: 0)).hasSuffix("\n\nid: 2\n\n"))
        #expect(text(try await page(feed, after: 1)) == "id: 2\n\n")
    }

    @Test func `a reader that is up to date gets an empty page`() async throws {
        let feed = ScriptedFeed()
        feed.commit()
        let page = try await page(feed, after: 1)
        #expect(page.bytes.readableBytes == 0)
        #expect(page.events == 0)
    }

    @Test(arguments: [5, 2])
    func `a position beyond the head or before the horizon gets a reset and everything`(
        since: Int64
    ) async throws {
        let feed = ScriptedFeed()
        feed.commit(4)
        feed.forget(through: 3)
        let page = try await page(feed, after: since)
        #expect(text(page).hasPrefix("event: reset\nid: 0\ndata: {}\n\nevent: change\nid: 1\n"))
        #expect(page.next == FeedPosition(number: 4, horizon: 3))
    }

    @Test func `consecutive pages are found by their starting position`() async throws {
        let feed = ScriptedFeed()
        var pages = LivePages()
        for number in 0..<3 {
            feed.commit()
            pages.add(try await page(feed, after: Int64(number)))
        }
        #expect(pages.page(after: FeedPosition(number: 0))?.next.number == 1)
        #expect(pages.page(after: FeedPosition(number: 2))?.next.number == 3)
        #expect(pages.page(after: FeedPosition(number: 3)) == nil)
    }

    @Test func `the oldest pages are dropped beyond the limits of events and bytes`() async throws {
        for (count, bytes) in [(100, 1), (1, LiveLimits.sharedBytes / 2)] {
            let feed = ScriptedFeed()
            var pages = LivePages()
            var position: Int64 = 0
            for _ in 0..<4 {
                let head = feed.commit(count, bytes: bytes)
                pages.add(try await page(feed, after: position))
                position = head
            }
            #expect(pages.page(after: FeedPosition(number: 0)) == nil)
            #expect(pages.page(after: FeedPosition(number: position - Int64(count))) != nil)
        }
    }

    @Test func `pages that are too large or do not advance are not kept`() async throws {
        let feed = ScriptedFeed()
        var pages = LivePages()
        pages.add(try await page(feed, after: 0))
        feed.commit(1, bytes: LiveLimits.sharedBytes + 1)
        pages.add(try await page(feed, after: 0))
        #expect(pages.page(after: FeedPosition(number: 0)) == nil)
    }

    @Test func `a page far behind the head does not replace newer ones`() async throws {
        let feed = ScriptedFeed()
        var pages = LivePages()
        feed.commit(4)
        pages.add(try await page(feed, after: 3))
        pages.add(try await page(feed, after: 0, limit: 1))
        #expect(pages.page(after: FeedPosition(number: 3)) != nil)
    }

    @Test func `a page is not shared with readers that know other deletions`() async throws {
        var pages = LivePages()
        let known = FeedPosition(number: 0, horizon: 3)
        let feed = ScriptedFeed()
        feed.commit(2)
        let part = try await feed.read(Identifier.new(), after: known, limit: 10)
        pages.add(LivePage(part, after: known))
        #expect(pages.page(after: known) != nil)
        #expect(pages.page(after: FeedPosition(number: 0)) == nil)
    }
}
