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

    /// Creates the screen, which shows what is cached.
    public init(_ client: SanguineClient, _ post: RecordID) {
        (self.client, self.post) = (client, post)
        list = client.model(.replies(to: post))
    }

    /// The replies, the oldest first; the user's own new ones are after the last page.
    public var replies: [Reply] { list.items }
    public var hasMore: Bool { list.hasMore }
    public var error: SanguineError? { list.nextError ?? list.error }

    public func load() async { await list.refresh(force: false) }
    public func loadNext() async { await list.loadNext() }

    /// Replies to the post.
    ///
    /// - Throws: ``FeedError`` without a profile.
    public func reply(_ text: String) throws {
        guard let me = client.cached(.me) else { throw FeedError.noProfile }
        try client.perform(Write(Reply(id: .new(), to: post, text, by: me.id)))
    }
}
