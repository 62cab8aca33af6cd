import SanguineModel

/// A resumable upload: an unfinished file, or the result of a finished one.
///
/// Each account has ``WireLimits/uploadsPerAccount`` slots, and a document for each slot that is
/// taken. The bytes are in pieces of the blob store; see ``UploadPiece``.
///
/// Invariants:
/// 1. Every piece but the last has ``UploadPiece/bytes`` bytes, so that its position follows from
///    its number.
/// 2. The bytes before ``offset`` are durable.
/// 3. An upload is finished if and only if ``offset`` is ``length``, and then it has no pieces.
/// 4. The account's ``FeedRow/bytes`` contain ``reservedBytes`` of every unfinished upload.
struct StoredUpload: StoredDocument, Hashable {
    static let kind = DocumentKind.upload

    /// The owner.
    var account: Identifier
    /// The account's slot.
    var slot: Int
    /// See ``UploadID/unique``.
    var unique: Identifier
    /// The size of the file in bytes.
    var length: Int
    /// The number of bytes that are stored.
    var offset = 0
    /// The ids of the pieces, in order.
    var pieces: [String] = []
    /// The value of `Upload-Metadata`, which is returned as it was sent.
    var metadata: String?
    /// The idempotency key of the creation.
    var key: String?
    /// The time after which the upload is removed, unless more bytes arrive.
    var expiresAt: Timestamp
    /// The stored file; `nil` for an unfinished upload.
    var file: BlobFacts?

    var documentID: String { Self.id(account, slot) }
    var documentAccount: Identifier? { account }

    static func id(_ account: Identifier, _ slot: Int) -> String { "\(account) \(slot)" }

    static func key(_ account: Identifier, _ slot: Int) -> Key { key(id(account, slot)) }

    /// The keys of all uploads of an account.
    static func keys(of account: Identifier) -> [Key] {
        (0..<WireLimits.uploadsPerAccount).map { key(account, $0) }
    }

    /// Returns the upload in a slot, if its row was loaded and exists.
    static func find(
        _ account: Identifier,
        _ slot: Int,
        in loaded: Loaded
    ) throws(Problem) -> StoredUpload? {
        try loaded.document(StoredUpload.self, id(account, slot))
    }

    /// Returns the account's uploads, if the rows of all slots were loaded.
    static func all(of account: Identifier, in loaded: Loaded) throws(Problem) -> [StoredUpload] {
        var all: [StoredUpload] = []
        for slot in 0..<WireLimits.uploadsPerAccount {
            if let upload = try find(account, slot, in: loaded) { all.append(upload) }
        }
        return all
    }

    var id: UploadID { UploadID(slot: slot, unique: unique) }

    var isFinished: Bool { file != nil }

    /// The part of the account's storage limit that the upload takes: the whole file, so that there
    /// is room for it when it is finished.
    var reservedBytes: Int64 { isFinished ? 0 : Int64(length) + RecordRow.overheadBytes }

    /// The ids of the pieces.
    var pieceIDs: [BlobID] { pieces.compactMap { BlobID($0) } }

    /// The number of pieces that have their whole size.
    var wholePieces: Int { min(pieces.count, offset / UploadPiece.bytes) }

    /// The upload in responses.
    var status: UploadStatus {
        UploadStatus(
            id: id.description,
            length: length,
            offset: offset,
            expiresAt: expiresAt,
            file: file
        )
    }
}
