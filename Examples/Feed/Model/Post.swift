public import SanguineModel

/// A picture with a text, which all users may read.
public struct Post: Written {
    /// The posts of the users that a user follows, and the user's own ones.
    public static let following = RecordTimeline(
        "following",
        by: "author",
        in: "follows",
        naming: "followed",
        includesOwn: true
    )
    public static let collection = RecordCollection(
        "posts",
        access: .everyone,
        indexes: ["createdAt", "profile"],
        blobs: [.publicly("photo")],
        owner: "author",
        timelines: [following]
    )
    public static let writing = "post.publish"
    public static let byCreation = RecordIndex<Post, Timestamp>("createdAt")
    public static let byProfile = RecordIndex<Post, RecordID>("profile")

    public let id: RecordID
    public let text: String
    /// The author's profile; shown only if it has the same owner as the post.
    public let profile: RecordID?
    /// The id of the picture's file.
    public let photo: String?
    /// The blurred picture, for the first frame.
    public let placeholder: ThumbHash?
    public var createdAt: Timestamp?
    /// The id of the owner's account, which the server sets.
    public var author: String?
    /// The number of likes, which the server counts.
    public var likes: Int?
    /// The number of replies, which the server counts.
    public var replies: Int?

    public var lane: String { id.text }

    public init(
        id: RecordID,
        _ text: String,
        by profile: RecordID,
        photo: String? = nil,
        placeholder: ThumbHash? = nil
    ) {
        (self.id, self.text, self.profile) = (id, text, profile)
        (self.photo, self.placeholder) = (photo, placeholder)
    }
}

/// One user likes a post.
public struct Like: Mark {
    public static let collection = RecordCollection(
        "likes",
        access: .everyone,
        indexes: ["post"],
        owner: "account",
        unique: [["post", "account"]],
        counts: [RecordCounter(by: "post", in: "posts", as: "likes")]
    )
    public static let marking = "post.like"
    public static let byMarked = RecordIndex<Like, RecordID>("post")

    public let id: RecordID
    public let post: RecordID
    public var marked: RecordID { post }

    public init(of post: RecordID, id: RecordID = .new()) { (self.post, self.id) = (post, id) }
}

/// An answer to a post.
public struct Reply: Written {
    public static let collection = RecordCollection(
        "replies",
        access: .everyone,
        indexes: ["createdAt", "post"],
        owner: "author",
        counts: [RecordCounter(by: "post", in: "posts", as: "replies")]
    )
    public static let writing = "reply.send"
    public static let byCreation = RecordIndex<Reply, Timestamp>("createdAt")
    public static let byPost = RecordIndex<Reply, RecordID>("post")

    public let id: RecordID
    public let post: RecordID
    public let text: String
    /// The author's profile; shown only if it has the same owner as the reply.
    public let profile: RecordID
    public var createdAt: Timestamp?
    /// The id of the owner's account, which the server sets.
    public var author: String?

    public var lane: String { post.text }

    public init(id: RecordID, to post: RecordID, _ text: String, by profile: RecordID) {
        (self.id, self.post, self.text, self.profile) = (id, post, text, profile)
    }
}
