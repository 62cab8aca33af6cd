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
public struct Follow: SyncedRecord {
    public static let collection = RecordCollection(
        "follows",
        access: .everyone,
        indexes: ["createdAt", "profile", "fan"],
        owner: "account",
        unique: [["profile", "account"]],
        counts: [RecordCounter(by: "profile", in: "profiles", as: "followers")]
    )
    public static let byCreation = RecordIndex<Follow, Timestamp>("createdAt")
    public static let byProfile = RecordIndex<Follow, RecordID>("profile")
    public static let byFan = RecordIndex<Follow, RecordID>("fan")

    public let id: RecordID
    /// The followed profile.
    public let profile: RecordID
    /// The profile of the user who follows; shown only if it has the same owner as this record.
    public let fan: RecordID
    public let createdAt: Timestamp?
    /// The id of the owner's account, which the server sets.
    public var account: String?

    init(id: RecordID, of profile: RecordID, by fan: RecordID, at moment: Timestamp) {
        (self.id, self.profile, self.fan, createdAt) = (id, profile, fan, moment)
    }
}
