public import SanguineModel

/// Creates or changes the user's profile.
public struct SaveProfile: RecordMutation {
    public static let name = "profile.save"
    let profile: Profile

    public init(_ profile: Profile) { self.profile = profile }

    public func apply(to records: inout Records) throws {
        guard (1...80).contains(profile.name.count), profile.about.utf8.count <= 1 << 10 else {
            throw Refusal(.invalidContent, "Use a name of 1 to 80 characters, and a shorter text.")
        }
        records.set(profile)
    }
}

/// Publishes a post.
public struct PublishPost: RecordMutation {
    public static let name = "post.publish"
    let post: Post
    public var lane: String { post.id.text }

    public init(_ post: Post) { self.post = post }

    public func apply(to records: inout Records) throws {
        guard post.text.utf8.count <= Post.mostBytes else {
            throw Refusal(.invalidContent, "Write a text of at most 4 KiB.")
        }
        var post = post
        // The server replaces it by its own time.
        post.createdAt = records.operation.moment
        records.set(post)
    }
}

/// Deletes one of the user's posts.
public struct DeletePost: RecordMutation {
    public static let name = "post.delete"
    let post: RecordID
    public var lane: String { post.text }

    public init(_ post: RecordID) { self.post = post }

    public func apply(to records: inout Records) throws { records.delete(Post.self, post) }
}

/// Likes a post, unless the user likes it already, on whichever device.
public struct LikePost: RecordMutation {
    public static let name = "post.like"
    let post: RecordID
    let id: RecordID
    public var lane: String { post.text }

    public init(_ post: RecordID, id: RecordID = .new()) { (self.post, self.id) = (post, id) }

    public func apply(to records: inout Records) throws {
        guard records.query(where: Like.byPost, is: post).isEmpty else { return }
        records.set(Like(id: id, post: post))
    }
}

/// Takes a like back.
public struct UnlikePost: RecordMutation {
    public static let name = "post.unlike"
    let post: RecordID
    public var lane: String { post.text }

    public init(_ post: RecordID) { self.post = post }

    public func apply(to records: inout Records) throws {
        for like in records.query(where: Like.byPost, is: post) {
            records.delete(Like.self, like.id)
        }
    }
}

/// Replies to a post.
public struct SendReply: RecordMutation {
    public static let name = "reply.send"
    let reply: Reply
    public var lane: String { reply.post.text }

    public init(_ reply: Reply) { self.reply = reply }

    public func apply(to records: inout Records) throws {
        guard reply.text.utf8.count <= Post.mostBytes else {
            throw Refusal(.invalidContent, "Write a text of at most 4 KiB.")
        }
        var reply = reply
        reply.createdAt = records.operation.moment
        records.set(reply)
    }
}

/// Follows a profile, or ends that.
public struct SetFollowing: RecordMutation {
    public static let name = "profile.follow"
    let profile: RecordID
    let fan: RecordID
    let id: RecordID
    let isFollowing: Bool
    public var lane: String { profile.text }

    public init(_ profile: RecordID, by fan: RecordID, _ isFollowing: Bool, id: RecordID = .new()) {
        (self.profile, self.fan, self.isFollowing, self.id) = (profile, fan, isFollowing, id)
    }

    public func apply(to records: inout Records) throws {
        let known = records.query(where: Follow.byProfile, is: profile)
        if isFollowing, known.isEmpty {
            let moment = records.operation.moment
            records.set(Follow(id: id, of: profile, by: fan, at: moment))
        } else if !isFollowing {
            for follow in known { records.delete(Follow.self, follow.id) }
        }
    }
}

/// The types that both client and server register.
public let feedTypes: [any Registrable.Type] = [
    Profile.self, Follow.self, Post.self, Like.self, Reply.self, SaveProfile.self,
    PublishPost.self, DeletePost.self, LikePost.self, UnlikePost.self, SendReply.self,
    SetFollowing.self,
]
