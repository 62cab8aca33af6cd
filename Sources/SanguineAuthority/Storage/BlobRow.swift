public import SanguineModel

/// A file of an account; its bytes are in the ``BlobStore``.
///
/// Each account that has the content has its own row.
public struct BlobRow: Hashable, Sendable {
    /// The owner.
    public var account: Identifier
    /// The id of its content.
    public var id: BlobID
    /// The size in bytes.
    public var size: Int64
    /// The type, detected from the content.
    public var type: String
    /// The width of an image, in pixels.
    public var width: Int64?
    /// The height of an image, in pixels.
    public var height: Int64?
    /// The time when the account last stored it.
    public var createdAt: Timestamp

    /// Creates the row.
    public init(
        account: Identifier,
        id: BlobID,
        size: Int64,
        type: String,
        width: Int64? = nil,
        height: Int64? = nil,
        createdAt: Timestamp
    ) {
        self.account = account
        self.id = id
        self.size = size
        self.type = type
        self.width = width
        self.height = height
        self.createdAt = createdAt
    }

    /// The part of the owner's storage limit that the file uses: its content and
    /// ``RecordRow/overheadBytes``, as for a record.
    public var storedBytes: Int64 { size + RecordRow.overheadBytes }

    /// The position of the row in the order of ``FilesQuery``.
    public var position: FilePosition { FilePosition(id: id, account: account) }

    /// The description of the file in messages.
    public var facts: BlobFacts { facts(nil) }

    /// Returns the description of the file in the response to its upload.
    ///
    /// The placeholder is not stored: each upload decodes the image.
    func facts(_ placeholder: ThumbHash?) -> BlobFacts {
        BlobFacts(
            id: id.description,
            size: Int(clamping: size),
            type: type,
            width: width.map { Int(clamping: $0) },
            height: height.map { Int(clamping: $0) },
            placeholder: placeholder
        )
    }
}

/// A position in the order of all accounts' files: by content, then by account.
public struct FilePosition: Hashable, Sendable, Comparable {
    /// The content.
    public var id: BlobID
    /// The owner.
    public var account: Identifier

    /// Creates the position.
    public init(id: BlobID, account: Identifier) {
        self.id = id
        self.account = account
    }

    /// Orders by the content, then by the account.
    public static func < (lhs: FilePosition, rhs: FilePosition) -> Bool {
        lhs.id == rhs.id ? lhs.account < rhs.account : lhs.id < rhs.id
    }
}

/// A part of the files of all accounts.
public struct FilesQuery: Hashable, Sendable {
    /// The content that the files must have; `nil` for any.
    public var id: BlobID?
    /// The position after which the part begins; `nil` for the first file.
    public var after: FilePosition?
    /// The maximum number of files.
    public var limit: Int

    /// Creates a query for the owners of a file.
    public init(of id: BlobID, limit: Int) {
        self.id = id
        self.limit = limit
    }

    /// Creates a query for the files of all accounts.
    public init(after position: FilePosition? = nil, limit: Int) {
        after = position
        self.limit = limit
    }

    /// Returns whether the query finds the row, disregarding the limit.
    public func includes(_ row: BlobRow) -> Bool {
        (id.map { $0 == row.id } ?? true) && (after.map { $0 < row.position } ?? true)
    }
}
