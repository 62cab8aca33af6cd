import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct FollowersTests {
    @Test func `a follower receives the current value at once, and then each change`() async {
        let followers = Followers<Int>()
        var values = followers.stream(from: 1).makeAsyncIterator()
        #expect(await values.next() == 1)
        followers.notify(2)
        #expect(await values.next() == 2)
        followers.notify(2)
        followers.notify(3)
        #expect(await values.next() == 3)
    }

    @Test func `a slow follower receives the newest value`() async {
        let followers = Followers<Int>()
        var values = followers.stream(from: 1).makeAsyncIterator()
        for number in 2...9 { followers.notify(number) }
        #expect(await values.next() == 9)
    }

    @Test func `a new follower receives a value that earlier followers received`() async {
        let followers = Followers<Int>()
        do {
            var values = followers.stream(from: 1).makeAsyncIterator()
            followers.notify(2)
            #expect(await values.next() == 2)
        }
        // It fell back to 1 while there were no followers.
        followers.notify(1)
        var values = followers.stream(from: 1).makeAsyncIterator()
        #expect(await values.next() == 1)
        followers.notify(2)
        #expect(await values.next() == 2)
    }

    @Test func `a value is not computed without followers`() {
        let followers = Followers<Int>()
        followers.notify(
            {
                Issue.record("Nobody follows."); return 1
            }()
        )
    }

    @Test func `finishing ends all streams, including later ones`() async {
        let followers = Followers<Int>()
        var early = followers.stream(from: 1).makeAsyncIterator()
        #expect(await early.next() == 1)
        followers.finish()
        #expect(await early.next() == nil)
        var late = followers.stream(from: 1).makeAsyncIterator()
        #expect(await late.next() == nil)
    }

    @Test
    func `a follower that joins before a notification does not take it from the others`()
        async
    {
        let followers = Followers<Int>()
        var first = followers.stream(from: 1).makeAsyncIterator()
        #expect(await first.next() == 1)
        var second = followers.stream(from: 2).makeAsyncIterator()
        followers.notify(2)
        #expect(await second.next() == 2)
        #expect(await first.next() == 2)
    }
}
