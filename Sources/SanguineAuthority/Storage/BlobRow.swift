public import SanguineModel

/// A file that an account has; its bytes are in the ``BlobStore``.
///
/// Of one content there is a row for each account that has it.
public struct BlobRow: Hashable, Sendable {
    /// Whose file.
    public var account: Identifier
    /// Its content's name.
    public var id: BlobID
    /// Its bytes.
    public var size: Int64
    /// Its type, by its content.
    public var type: String
    /// The width of an image, in pixels.
    public var width: Int64?
    /// The height of an image, in pixels.
    public var height: Int64?
    /// When the account first stored it.
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

    /// What the file takes of the bytes that its owner may keep: as a record does, its content and
    /// ``RecordRow/overheadBytes``.
    public var storedBytes: Int64 { size + RecordRow.overheadBytes }

    /// What the wire says of it.
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
