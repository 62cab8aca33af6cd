public import FeedModel
public import Foundation
public import Sanguine

extension SanguineClient.Configuration {
    /// The configuration of the app and its tests.
    public static func feed(server: URL?, folder: URL) -> Self {
        var configuration = Self(server: server)
        configuration.folder = folder
        configuration.register(feedTypes)
        configuration.queries = [
            ListQuery<Post>.feed().declaration, ListQuery<Reply>.replies(to: .new()).declaration,
            ListQuery<Follow>.followers(of: .new()).declaration,
            ListQuery<Message>.newest.declaration,
            ListQuery<Card>.search("").declaration, ValueQuery<Profile>.profile(.new()).declaration,
            ValueQuery<Card>.card(.new()).declaration,
        ]
        return configuration
    }
}

/// The part of a profile that rows show.
public typealias Card = PartialRecord<Profile>

extension Card {
    /// Creates the part of the user's own profile.
    init?(of profile: Profile) {
        guard case .object(let members)? = try? JSONValue(encoding: profile) else { return nil }
        try? self.init(id: profile.id, members, selecting: Profile.card)
    }
}

// MARK: - Lists of all users

extension RecordListing<Post> {
    /// The posts of all users, the newest first.
    public static var everyone: Self { Self().ordered(by: Post.byCreation, descending: true) }

    /// The posts of a profile, the newest first.
    public static func posts(of profile: RecordID) -> Self {
        everyone.where(Post.byProfile, is: profile)
    }
}

/// The posts that a list shows.
public enum FeedSource: Hashable, Sendable {
    case everyone
    /// The posts of followed users, and the user's own ones.
    case following
    case profile(RecordID)

    /// The list on the server.
    public var list: ListQuery<Post> {
        switch self {
        case .everyone: .feed()
        case .following: .feed(.timeline(Post.following))
        case .profile(let id): .feed(.posts(of: id))
        }
    }
}

extension ListQuery where Item == Post {
    /// Posts, 20 at a time, which are also shown without a network, with the user's own ones.
    public static func feed(_ listing: RecordListing<Post> = .everyone) -> Self {
        .published(listing, showsOwn: true, policy: .shownOffline)
    }
}

extension ListQuery where Item == Reply {
    /// The replies to a post, the oldest first, with the user's own ones.
    public static func replies(to post: RecordID) -> Self {
        .published(
            RecordListing<Reply>().ordered(by: Reply.byCreation).where(Reply.byPost, is: post),
            showsOwn: true,
            size: PageLimits.largestSize
        )
    }
}

extension RecordListing<Message> {
    /// The messages that the user has sent or received, the newest first.
    static var newest: Self { Self().ordered(by: Message.byCreation, descending: true) }
}

extension ListQuery where Item == Message {
    /// The messages of all conversations, the newest first.
    public static var newest: Self { messages(.newest) }

    /// The messages between two profiles, the newest first.
    public static func messages(_ one: RecordID, _ other: RecordID) -> Self {
        let conversation = Message.conversation(one, other)
        return messages(.newest.where(Message.byConversation, is: conversation))
    }

    /// Messages, 100 at a time, which are also shown without a network, with those not yet sent.
    private static func messages(_ listing: RecordListing<Message>) -> Self {
        .published(
            listing,
            showsOwn: true,
            size: PageLimits.largestSize,
            policy: .shownOffline
        )
    }
}

extension ListQuery where Item == Follow {
    /// The follows of a profile, the newest first.
    public static func followers(of profile: RecordID) -> Self {
        let all = RecordListing<Follow>().ordered(by: Follow.byCreation, descending: true)
        return .published(all.where(Follow.byMarked, is: profile), size: PageLimits.largestSize)
    }

    /// The profiles that a profile follows, the newest first.
    public static func following(of profile: RecordID) -> Self {
        let all = RecordListing<Follow>().ordered(by: Follow.byCreation, descending: true)
        return .published(all.where(Follow.byFan, is: profile), size: PageLimits.largestSize)
    }
}

extension ListQuery where Item == Card {
    /// The profiles whose names begin with a text.
    public static func search(_ prefix: String) -> Self {
        .published(
            RecordListing<Profile>().search(Profile.name, prefix: prefix),
            only: Profile.card,
            size: PageLimits.largestSize
        )
    }
}

extension ValueQuery where Value == Profile {
    /// A profile, which is fresh for five minutes.
    public static func profile(_ id: RecordID) -> Self { .published(Profile.self, id) }
}

extension ValueQuery where Value == Card {
    /// The part of a profile that rows show, which is fresh for five minutes.
    public static func card(_ id: RecordID) -> Self {
        .published(Profile.self, id, only: Profile.card, policy: .publishedRecord.stored(.onDisk))
    }
}

extension Policy {
    /// Fresh for 30 seconds, and kept for a start without a network.
    fileprivate static let shownOffline = publishedList.stored(.onDisk)
        .refetched(on: [.foreground, .networkBack])
}

// MARK: - The user's own records

extension RecordQuery where Value == Profile? {
    /// The user's own profile; `nil` before the user has a name.
    public static var me: Self {
        RecordQuery(reading: Profile.collection) { $0.records(Profile.self).first }
    }
}

extension RecordQuery where Value == Set<RecordID> {
    /// The posts that the user likes.
    public static var likedPosts: Self {
        RecordQuery(reading: Like.collection) { Set($0.records(Like.self).map(\.post)) }
    }

    /// The profiles that the user follows.
    public static var followedProfiles: Self {
        RecordQuery(reading: Follow.collection) { Set($0.records(Follow.self).map(\.profile)) }
    }
}
