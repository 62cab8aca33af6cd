import FeedModel
import Sanguine
import TestSupport
import Testing

@testable import FeedApp

/// The numbers of likes while the server has not counted the user's own.
@Suite("Counts of likes", .bounded)
struct LikeCountTests {
    private func post(_ likes: Int?) -> Post {
        var post = Post(id: Self.id, "Hello", by: .new())
        post.likes = likes
        return post
    }

    private static let id = RecordID.new()

    @Test func `a like is counted before and after the server has counted it`() {
        var counts = LikeCounts()
        counts.changed(post(7), isLiked: true)
        #expect(counts.likes(of: post(7)) == 8 && !counts.isContained(in: post(7)))
        #expect(counts.likes(of: post(8)) == 8 && counts.isContained(in: post(8)))
        #expect(counts.likes(of: post(9)) == 9)
        counts.ended(Self.id)
        #expect(counts.likes(of: post(8)) == 8)
    }

    @Test func `a like that is taken back at once leaves the number as it was`() {
        var counts = LikeCounts()
        counts.changed(post(nil), isLiked: true)
        counts.changed(post(nil), isLiked: false)
        // The server has applied the first operation only.
        #expect(counts.likes(of: post(1)) == 0)
        counts.ended(Self.id)
        #expect(counts.likes(of: post(1)) == 0)
        counts.ended(Self.id)
        #expect(counts.likes(of: post(nil)) == 0)
    }

    @Test func `a number is never negative`() {
        var counts = LikeCounts()
        counts.changed(post(nil), isLiked: false)
        #expect(counts.likes(of: post(nil)) == 0)
    }
}
