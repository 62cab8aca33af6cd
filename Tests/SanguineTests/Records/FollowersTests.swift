import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct FollowersTests {
    @Test func `who follows gets the value at once, and each other one`() async {
        let followers = Followers<Int>()
        var values = followers.stream(from: 1).makeAsyncIterator()
        #expect(await values.next() == 1)
        followers.tell(2)
        #expect(await values.next() == 2)
        followers.tell(2)
        followers.tell(3)
        #expect(await values.next() == 3)
    }

    @Test func `who is slow gets the newest`() async {
        let followers = Followers<Int>()
        var values = followers.stream(from: 1).makeAsyncIterator()
        for number in 2...9 { followers.tell(number) }
        #expect(await values.next() == 9)
    }

    @Test func `who comes later is told what others were told before`() async {
        let followers = Followers<Int>()
        do {
            var values = followers.stream(from: 1).makeAsyncIterator()
            followers.tell(2)
            #expect(await values.next() == 2)
        }
        // It fell back to 1 while nobody followed.
        followers.tell(1)
        var values = followers.stream(from: 1).makeAsyncIterator()
        #expect(await values.next() == 1)
        followers.tell(2)
        #expect(await values.next() == 2)
    }

    @Test func `a value is not made for nobody`() {
        let followers = Followers<Int>()
        followers.tell(
            {
                Issue.record("Nobody follows."); return 1
            }()
        )
    }

    @Test func `the end ends all, also those to come`() async {
        let followers = Followers<Int>()
        var early = followers.stream(from: 1).makeAsyncIterator()
        #expect(await early.next() == 1)
        followers.finish()
        #expect(await early.next() == nil)
        var late = followers.stream(from: 1).makeAsyncIterator()
        #expect(await late.next() == nil)
    }

    @Test func `who comes between a change and its telling takes it from nobody`() async {
        let followers = Followers<Int>()
        var first = followers.stream(from: 1).makeAsyncIterator()
        #expect(await first.next() == 1)
        var second = followers.stream(from: 2).makeAsyncIterator()
        followers.tell(2)
        #expect(await second.next() == 2)
        #expect(await first.next() == 2)
    }
}
