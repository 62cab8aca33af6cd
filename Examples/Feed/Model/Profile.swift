public import SanguineModel

/// A user's profile, which all users may read.
public struct Profile: SyncedRecord {
    public static let collection = RecordCollection(
        "profiles",
        access: .everyone,
        blobs: [.publicly("avatar")],
        owner: "account",
        unique: [["account"]],
        search: ["name"]
    )
    public static let name = RecordField<Profile, String>("name")
    public static let avatar = RecordField<Profile, String>("avatar")
    public static let placeholder = RecordField<Profile, ThumbHash>("placeholder")
    public static let account = RecordField<Profile, String>("account")
    /// The members that a row of a list shows.
    public static let card = RecordSelection(name, avatar, placeholder, account)

    public let id: RecordID
    public var name: String
    public var about: String
    /// The id of the avatar's file.
    public var avatar: String?
    /// The blurred avatar.
    public var placeholder: ThumbHash?
    /// The id of the owner's account, which the server sets.
    public var account: String?
    /// The number of followers, which the server counts.
    public var followers: Int?

    public init(id: RecordID, name: String, about: String = "") {
        (self.id, self.name, self.about) = (id, name, about)
    }
}

/// One user follows another one.
public struct Follow: Mark {
    public static let collection = RecordCollection(
        "follows",
        access: .everyone,
        indexes: ["createdAt", "profile", "fan", "followed"],
        owner: "account",
        unique: [["profile", "account"]],
        counts: [RecordCounter(by: "profile", in: "profiles", as: "followers")]
    )
    public static let byCreation = RecordIndex<Follow, Timestamp>("createdAt")
    public static let marking = "profile.follow"
    public static let byMarked = RecordIndex<Follow, RecordID>("profile")
    public static let byFan = RecordIndex<Follow, RecordID>("fan")

    public let id: RecordID
    /// The followed profile.
    public let profile: RecordID
    /// The profile of the user who follows; shown only if it has the same owner as this record.
    public let fan: RecordID
    /// The id of the followed profile's account; `nil` in follows of earlier versions of the app.
    public let followed: String?
    /// The time of the follow, which the server sets.
    public var createdAt: Timestamp?
    /// The id of the owner's account, which the server sets.
    public var account: String?
    public var marked: RecordID { profile }

    /// Creates a follow.
    ///
    /// - Parameters:
    ///   - profile: The followed profile.
    ///   - account: The id of its account; `nil` is enough to end a follow.
    ///   - fan: The profile of the user who follows.
    ///   - id: The follow's id.
    public init(
        of profile: RecordID,
        _ account: String?,
        by fan: RecordID,
        id: RecordID = .new()
    ) {
        (self.profile, followed, self.fan, self.id) = (profile, account, fan, id)
    }
}
