public import FeedModel
public import Observation
public import Sanguine

/// The state of a post with its replies.
@MainActor
@Observable
public final class PostScreen {
    private let client: SanguineClient
    private let post: RecordID
    private let list: ListModel<Reply>
    private let own: RecordModel<[Reply]>

    /// Creates the screen, which shows what is cached.
    public init(_ client: SanguineClient, _ post: RecordID) {
        (self.client, self.post) = (client, post)
        list = client.model(.replies(to: post))
        own = client.model(.ownReplies(to: post))
    }

    /// The replies, the oldest first; the user's own ones that the list lacks are at the end.
    public var replies: [Reply] {
        // The model notifies views, in a later turn. The client's value is already the newest.
        _ = own.value
        let known = Set(list.items.map(\.id))
        let missing = client.cached(.ownReplies(to: post)).filter { !known.contains($0.id) }
        // Until the last page, the server may have them on a later one.
        return list.items + (list.hasMore ? [] : missing)
    }

    public var hasMore: Bool { list.hasMore }
    public var error: SanguineError? { list.nextError ?? list.error }

    public func load() async { await list.refresh(force: false) }
    public func loadNext() async { await list.loadNext() }

    /// Replies to the post.
    ///
    /// - Throws: ``FeedError`` without a profile.
    public func reply(_ text: String) throws {
        guard let me = client.cached(.me) else { throw FeedError.noProfile }
        try client.perform(SendReply(Reply(id: .new(), to: post, text, by: me.id)))
    }
}

extension RecordQuery where Value == [Reply] {
    /// The user's own replies to a post, the oldest first.
    static func ownReplies(to post: RecordID) -> Self {
        RecordQuery(reading: Reply.collection) { $0.records(where: Reply.byPost, is: post) }
    }
}
