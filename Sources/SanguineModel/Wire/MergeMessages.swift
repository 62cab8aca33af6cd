/// What the merge of a guest into an account would do: the response to
/// `POST /v1/accounts/merge/preview`.
public struct MergePreview: Hashable, Codable, Sendable {
    /// A side of a merge.
    public enum Side: String, Codable, Sendable {
        /// The account, which remains.
        case account
        /// The guest, whose data is moved.
        case guest
    }

    /// A record that both sides have.
    public struct Conflict: Hashable, Codable, Sendable {
        /// The collection.
        public var collection: String
        /// The id of the record.
        public var id: RecordID
        /// The side whose record remains.
        public var kept: Side

        /// Creates a conflict.
        public init(collection: String, id: RecordID, kept: Side) {
            self.collection = collection
            self.id = id
            self.kept = kept
        }
    }

    /// The tokens of both sides, in the unit of balances.
    public struct Tokens: Hashable, Codable, Sendable {
        /// The tokens that the guest can spend, which are moved.
        public var moved: Int64
        /// The tokens in the guest's open holds, which are moved with their holds.
        public var held: Int64
        /// The tokens that the account can spend afterwards.
        public var available: Int64

        /// Creates the amounts.
        public init(moved: Int64, held: Int64, available: Int64) {
            self.moved = moved
            self.held = held
            self.available = available
        }
    }

    /// The largest number of ``conflicts`` that are listed.
    public static let listedConflicts = 100

    /// The guest.
    public var guest: Identifier
    /// The account, as it is after the merge.
    public var account: Account
    /// The number of records that are moved.
    public var records: Int
    /// The number of records that both sides have.
    public var conflictCount: Int
    /// The first ``listedConflicts`` of them, by collection and id.
    public var conflicts: [Conflict]
    /// The tokens.
    public var tokens: Tokens
    /// The quotas of the account after the merge.
    public var quotas: [Quota]
    /// The number of files that are moved.
    public var blobs: Int
    /// The number of bytes that the records and files of the account take afterwards.
    public var bytes: Int64
    /// The head of the guest's feed.
    public var guestHead: Int64
    /// The head of the account's feed.
    public var accountHead: Int64

    /// Creates a preview.
    public init(
        guest: Identifier,
        account: Account,
        records: Int,
        conflictCount: Int,
        conflicts: [Conflict],
        tokens: Tokens,
        quotas: [Quota],
        blobs: Int,
        bytes: Int64,
        guestHead: Int64,
        accountHead: Int64
    ) {
        self.guest = guest
        self.account = account
        self.records = records
        self.conflictCount = conflictCount
        self.conflicts = conflicts
        self.tokens = tokens
        self.quotas = quotas
        self.blobs = blobs
        self.bytes = bytes
        self.guestHead = guestHead
        self.accountHead = accountHead
    }
}

/// A preview with the token that performs the merge.
public struct MergeOffer: Hashable, Codable, Sendable {
    /// What the merge would do.
    public var preview: MergePreview
    /// The body of `POST /v1/accounts/merge`: valid for this guest and account as they are now.
    public var mergeToken: String
    /// The time after which the token is stale.
    public var expiresAt: Timestamp

    /// Creates an offer.
    public init(preview: MergePreview, mergeToken: String, expiresAt: Timestamp) {
        self.preview = preview
        self.mergeToken = mergeToken
        self.expiresAt = expiresAt
    }
}

/// The body of `POST /v1/accounts/merge`.
public struct MergeRequest: Hashable, Codable, Sendable {
    /// The token of the preview.
    public var mergeToken: String
    /// The newest refresh token of the guest, as proof that the guest's device asks.
    ///
    /// Needed only if the server demands it, and not within ten minutes of the guest's sign-in.
    public var refreshToken: String?

    /// Creates the body.
    public init(mergeToken: String, refreshToken: String? = nil) {
        self.mergeToken = mergeToken
        self.refreshToken = refreshToken
    }
}

/// A guest that has become a part of the account, as `GET /v1/account/guests` lists it.
public struct FormerGuest: Hashable, Codable, Sendable {
    /// The guest's id, which is an alias of the account.
    public var id: Identifier

    /// Creates the description.
    public init(id: Identifier) { self.id = id }
}
