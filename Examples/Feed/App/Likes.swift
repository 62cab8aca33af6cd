public import FeedModel
public import Observation
public import Sanguine

/// The user's likes, which all lists of posts share, so that a post has one number everywhere.
@MainActor
@Observable
public final class Likes {
    private let client: SanguineClient
    private let liked: RecordModel<Set<RecordID>>
    private var counts = LikeCounts()
    /// The lists that are shown.
    @ObservationIgnored private var lists: [() -> ListModel<Post>?] = []
    @ObservationIgnored private var settling: [Identifier: Task<Void, Never>] = [:]

    /// Creates the likes; an app has one object of them.
    public init(_ client: SanguineClient) {
        self.client = client
        liked = client.model(.likedPosts)
    }

    /// Returns whether the user likes a post.
    public func contains(_ post: Post) -> Bool {
        // The model notifies views, in a later turn. The client's value is already the newest.
        _ = liked.value
        return client.cached(.likedPosts).contains(post.id)
    }

    /// Returns the number of likes, the user's own included.
    public func count(of post: Post) -> Int { counts.likes(of: post) }

    /// Likes a post, or takes the like back.
    public func set(_ isLiked: Bool, of post: Post) throws {
        guard isLiked != contains(post) else { return }
        let receipt = try client.perform(SetMark(Like(of: post.id), isLiked))
        counts.changed(post, isLiked: isLiked)
        settling[receipt.id] = Task {
            await settle(receipt, of: post.id)
            settling[receipt.id] = nil
        }
    }

    /// Waits until the server has answered all likes, and the lists contain them.
    public func settled() async {
        for task in settling.values { await task.value }
    }

    /// Keeps the numbers of a list's posts right until it contains the likes.
    func follow(_ list: ListModel<Post>) {
        lists.removeAll { $0() == nil }
        lists.append { [weak list] in list }
    }

    /// Waits until the lists contain the like.
    private func settle(_ receipt: Receipt, of post: RecordID) async {
        if let outcome = try? await receipt.outcome, outcome == .applied {
            for list in lists.compactMap({ $0() })
            where list.items.contains(where: { $0.id == post }) {
                await list.refresh()
                // That may have been a refresh which began before the like.
                let row = list.items.first { $0.id == post }
                if let row, !counts.isContained(in: row) { await list.refresh() }
            }
        }
        counts.ended(post)
    }
}
