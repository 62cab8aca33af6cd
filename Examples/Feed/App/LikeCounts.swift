import FeedModel
import Sanguine

/// The numbers of likes that the user's own likes change before a list contains them.
///
/// A number never goes back: a list that was requested before the like still shows it.
struct LikeCounts {
    private struct Change {
        let wasLiked: Bool
        var isLiked: Bool
        /// The number of likes that the user saw before the change.
        let seen: Int
        /// The number of operations that have not ended.
        var operations: Int
    }

    private var changes: [RecordID: Change] = [:]

    /// Records that the user likes a post, or no longer likes it.
    mutating func changed(_ post: Post, isLiked: Bool) {
        var change =
            changes[post.id]
            ?? Change(
                wasLiked: !isLiked,
                isLiked: isLiked,
                seen: post.likes ?? 0,
                operations: 0
            )
        change.isLiked = isLiked
        change.operations += 1
        changes[post.id] = change
    }

    /// Ends an operation, because the list contains it, or because it was refused.
    mutating func ended(_ post: RecordID) {
        guard var change = changes.removeValue(forKey: post) else { return }
        change.operations -= 1
        if change.operations > 0 { changes[post] = change }
    }

    /// Whether a row of the list contains the change.
    func isContained(in post: Post) -> Bool {
        guard let change = changes[post.id] else { return true }
        let hasMoved = (post.likes ?? 0) != change.seen
        return hasMoved == (change.isLiked != change.wasLiked)
    }

    /// Returns the number of likes to show.
    func likes(of post: Post) -> Int {
        let known = post.likes ?? 0
        guard let change = changes[post.id] else { return known }
        if change.isLiked == change.wasLiked { return change.seen }
        return change.isLiked
            ? max(known, change.seen + 1) : min(known, max(0, change.seen - 1))
    }
}
