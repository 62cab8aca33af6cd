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

/// A record with a text that a user writes for others: a post, a reply or a message.
public protocol Written: SyncedRecord {
    /// The name of the mutation that creates it.
    static var writing: String { get }
    var text: String { get }
    var createdAt: Timestamp? { get set }
    /// The lane of its operations: those of one lane keep their order.
    var lane: String { get }
}

/// Creates a post, a reply or a message.
public struct Write<Content: Written>: RecordMutation {
    /// The longest text, in bytes.
    static var mostBytes: Int { 4 << 10 }
    public static var name: String { Content.writing }
    let content: Content
    public var lane: String { content.lane }

    public init(_ content: Content) { self.content = content }

    public func apply(to records: inout Records) throws {
        guard content.text.utf8.count <= Self.mostBytes else {
            throw Refusal(.invalidContent, "Write a text of at most 4 KiB.")
        }
        var content = content
        // The server replaces it by its own time.
        content.createdAt = records.operation.moment
        records.set(content)
    }
}

/// A record that marks another one, once for each user: a like of a post, a follow of a profile.
public protocol Mark: SyncedRecord {
    /// The name of the mutation that sets it and takes it back.
    static var marking: String { get }
    static var byMarked: RecordIndex<Self, RecordID> { get }
    var marked: RecordID { get }
}

/// Likes or follows, unless the user does already on whichever device, or takes that back.
public struct SetMark<Content: Mark>: RecordMutation {
    public static var name: String { Content.marking }
    let mark: Content
    let isSet: Bool
    public var lane: String { mark.marked.text }

    public init(_ mark: Content, _ isSet: Bool = true) { (self.mark, self.isSet) = (mark, isSet) }

    public func apply(to records: inout Records) throws {
        let known = records.query(where: Content.byMarked, is: mark.marked)
        if isSet, known.isEmpty {
            records.set(mark)
        } else if !isSet {
            for mark in known { records.delete(Content.self, mark.id) }
        }
    }
}

/// The types that both client and server register.
public let feedTypes: [any Registrable.Type] = [
    Profile.self, Follow.self, Post.self, Like.self, Reply.self, Message.self, SaveProfile.self,
    Write<Post>.self, Write<Reply>.self, Write<Message>.self, SetMark<Like>.self,
    SetMark<Follow>.self,
]
