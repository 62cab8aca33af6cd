import NIOCore
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Live connection state", .bounded)
struct LiveConnectionStateTests {
    private var state = LiveConnectionState(position: FeedPosition(number: 3), now: .zero)

    private mutating func pass(_ seconds: Int) -> Bool {
        state.timePassed(
            to: .seconds(seconds),
            pingInterval: .seconds(20),
            writeTimeout: .seconds(30)
        )
    }

    private func page(to next: Int64, head: Int64, hasMore: Bool = false) -> LivePage {
        let answer = PullAnswer(changes: [], next: next, head: head, hasMore: hasMore)
        return LivePage(FeedPart(answer: answer), after: state.position)
    }

    @Test mutating func `a new connection reads first, then waits to be woken`() {
        #expect(state.nextStep() == .read)
        #expect(state.nextStep() == nil)
        state.wake()
        #expect(state.nextStep() == .read)
    }

    @Test mutating func `changed lists are announced once, and only those that the reader shows`() {
        state = LiveConnectionState(
            position: FeedPosition(number: 3),
            lists: ["posts", "likes"],
            listsSeen: 5,
            now: .zero
        )
        #expect(state.nextStep() == .read)
        state.listChanged("profiles")
        #expect(state.nextStep() == nil)
        state.listChanged("posts")
        state.listChanged("posts")
        state.compareLists(["likes": 5, "profiles": 5], at: 6)
        #expect(state.nextStep() == .lists(["likes", "posts"]))
        #expect(state.nextStep() == nil)
        // A change before the connection, and one that was announced.
        state.compareLists(["posts": 4, "likes": 5], at: 7)
        #expect(state.nextStep() == nil)
        state.compareLists(["posts": 7], at: 8)
        #expect(state.nextStep() == .lists(["posts"]))
    }

    @Test mutating func `a wake during a read is not lost`() {
        #expect(state.nextStep() == .read)
        state.wake()
        state.wrote(page(to: 4, head: 4), head: 4)
        #expect(state.nextStep() == .read)
    }

    @Test mutating func `a page that ends before the known head is followed by another`() {
        #expect(state.nextStep() == .read)
        state.wrote(page(to: 4, head: 4), head: 5)
        #expect(state.nextStep() == .read)
        state.wrote(page(to: 5, head: 9, hasMore: true), head: 5)
        #expect(state.nextStep() == .read)
        #expect(state.position.number == 5)
    }

    @Test mutating func `a page that does not advance is not read repeatedly`() {
        #expect(state.nextStep() == .read)
        state.wrote(page(to: 3, head: 3), head: 5)
        #expect(state.nextStep() == nil)
    }

    @Test mutating func `a ping is due after a silent interval and is followed by a read`() {
        #expect(state.nextStep() == .read)
        #expect(!pass(19))
        #expect(state.nextStep() == nil)
        #expect(!pass(20))
        #expect(state.nextStep() == .ping)
        state.beginWrite(at: .seconds(20))
        state.endWrite(at: .seconds(20))
        #expect(state.nextStep() == .read)
        #expect(!pass(39))
        #expect(state.nextStep() == nil)
    }

    @Test mutating func `a write that takes too long ends the connection`() {
        state.beginWrite(at: .zero)
        #expect(!pass(29))
        #expect(pass(30))
        #expect(state.nextStep() == .end(.slow))
    }

    @Test mutating func `a failed read is retried after the next time check`() {
        #expect(state.nextStep() == .read)
        state.readFailed()
        #expect(state.nextStep() == nil)
        #expect(!pass(1))
        #expect(state.nextStep() == .read)
    }

    @Test mutating func `the first reason to end a connection is final`() {
        state.end(.shutdown)
        state.end(.closed)
        state.wake()
        #expect(state.nextStep() == .end(.shutdown))
        #expect(state.nextStep() == .end(.shutdown))
    }
}
