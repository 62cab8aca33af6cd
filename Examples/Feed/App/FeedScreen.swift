public import FeedModel
public import Observation
public import Sanguine

/// The state of a list of posts and the actions of its rows.
///
/// The user's own posts and likes are visible when an action returns, also without a network.
@MainActor
@Observable
public final class FeedScreen {
    /// The size of a row's picture, in pixels.
    public static let pictureSize = ImageSize(width: 600, height: 400)
    /// The number of rows whose pictures are loaded in advance.
    private static let picturesAhead = 10
    /// The number of authors that are kept for rows that appear again.
    private static let mostAuthors = 200

    private let client: SanguineClient
    private let list: ListModel<Post>
    /// The user's likes.
    public let likes: Likes
    /// The operations that the server has not answered, and those that it refused.
    public let outbox: OutboxModel
    @ObservationIgnored private var authors: [RecordID: ValueModel<Card>] = [:]
    @ObservationIgnored private var ahead: (last: RecordID, pictures: ImagePrefetch)?

    /// Creates the screen, which shows what is cached.
    ///
    /// - Parameters:
    ///   - client: The app's client.
    ///   - source: The posts to show. Default: those of all users.
    ///   - likes: The likes, which the screens of an app share. Default: new ones.
    public init(
        _ client: SanguineClient,
        _ source: FeedSource = .everyone,
        likes: Likes? = nil
    ) {
        self.client = client
        self.likes = likes ?? Likes(client)
        list = client.model(source.list)
        outbox = client.outbox.model
        self.likes.follow(list)
    }

    // MARK: - State

    /// The posts, with or without a network; the user's own ones before the server has them.
    public var posts: [Post] { list.items }
    public var hasMore: Bool { list.hasMore }
    public var phase: ListModel<Post>.Phase { list.phase }
    /// The reason why the list, or its next page, could not be loaded.
    public var error: SanguineError? { list.nextError ?? list.error }

    /// Returns the author of a post; `nil` until the profile is known, or if it is another user's.
    public func author(of post: Post) -> Card? {
        if client.record(Post.self, post.id) != nil {
            return client.cached(.me).flatMap { Card(of: $0) }  // Also before the first contact.
        }
        guard let id = post.profile else { return nil }
        let known = authors[id] ?? client.model(.card(id))
        if authors.count >= Self.mostAuthors { authors.removeAll() }
        authors[id] = known
        guard let card = known.value, post.author == nil || card[Profile.account] == post.author
        else { return nil }
        return card
    }

    /// Returns the picture of a post for a row, which shows the placeholder in its first frame.
    public func picture(of post: Post) -> ImageModel {
        client.images.model(
            post.photo.map { .file($0) },
            fitting: Self.pictureSize,
            placeholder: post.placeholder
        )
    }

    // MARK: - Scrolling

    /// Loads the list unless it is fresh, for a view that appears.
    public func load() async { await list.refresh(force: false) }

    /// Loads the list even if it is fresh, for pull to refresh.
    public func refresh() async { await list.refresh() }

    /// Loads the next page, usually before its first row is reached.
    public func loadNext() async { await list.loadNext() }

    /// Reports that a row is visible: the next page and the next pictures are loaded in advance.
    public func appeared(_ post: Post) {
        list.itemAppeared(post.id)
        let rows = posts
        guard let index = rows.firstIndex(where: { $0.id == post.id }) else { return }
        let last = ahead.flatMap { known in rows.firstIndex { $0.id == known.last } } ?? 0
        guard last < index + Self.picturesAhead / 2 else { return }
        let next = rows[(index + 1)...].prefix(Self.picturesAhead)
        guard let end = next.last, end.id != ahead?.last else { return }
        let sources = next.compactMap(\.photo).map { ImageSource.file($0) }
        ahead = (end.id, client.images.prefetch(sources, fitting: Self.pictureSize))
    }

    // MARK: - Actions

    /// Publishes a post.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - photo: The picture, which is shown at once and uploaded before the post. Default: none.
    /// - Returns: The post, which is in ``posts``.
    /// - Throws: ``FeedError`` without a profile, or the reason why the picture cannot wait.
    @discardableResult
    public func publish(_ text: String, photo: Photo? = nil) async throws -> Post {
        guard let me = client.cached(.me) else { throw FeedError.noProfile }
        let file = try await stored(photo)
        let post = Post(
            id: .new(),
            text,
            by: me.id,
            photo: file,
            placeholder: photo?.placeholder
        )
        try client.perform(Write(post))
        return client.record(Post.self, post.id) ?? post
    }

    /// Returns the id of a picture that the outbox uploads.
    private func stored(_ photo: Photo?) async throws(SanguineError) -> String? {
        guard let photo else { return nil }
        return try await client.enqueueUpload(of: photo.file, fitting: Self.pictureSize).id
    }

    /// Deletes one of the user's own posts.
    public func delete(_ post: Post) throws {
        try client.perform(DeleteRecord(Post.self, post.id))
    }
}

/// A picture to publish.
public struct Photo: Sendable {
    public let file: RequestBody
    /// The blurred picture, for the first frame of readers.
    public let placeholder: ThumbHash?

    public init(_ file: RequestBody, placeholder: ThumbHash?) {
        (self.file, self.placeholder) = (file, placeholder)
    }
}

/// The reason why the app refuses an action.
public enum FeedError: Error, CustomStringConvertible {
    case noProfile
    case unknownProfile

    public var description: String {
        switch self {
        case .noProfile: "Choose a name first: others see your profile with what you do."
        case .unknownProfile: "Load the other user's profile first, which needs a network."
        }
    }
}
