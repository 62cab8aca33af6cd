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
    /// The time when the account first stored it.
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

    /// The description of the file in messages.
    public var facts: BlobFacts {
        BlobFacts(
            id: id.description,
            size: Int(clamping: size),
            type: type,
            width: width.map { Int(clamping: $0) },
            height: height.map { Int(clamping: $0) }
        )
    }
}
