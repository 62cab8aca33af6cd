public import SanguineModel

/// Stores the bytes of files by their content.
///
/// A ``BlobRow`` records the owner of a file. The bytes are stored before the row that names them,
/// so every row has its bytes. A crash in between leaves bytes without a row, which are removed
/// after a grace period.
public protocol BlobStore: Sendable {
    /// Stores the bytes, and returns when they are durable.
    ///
    /// If the bytes are already stored, the later of the two times counts. Cancelling the calling
    /// task does not abort the write.
    ///
    /// - Parameters:
    ///   - bytes: The content.
    ///   - id: The id, which the caller computes from the content.
    ///   - moment: The current time.
    /// - Throws: ``StorageError``; the store is then unchanged.
    func keep(_ bytes: [UInt8], as id: BlobID, at moment: Timestamp) async throws(StorageError)

    /// Reads a part of a file.
    ///
    /// - Parameters:
    ///   - id: The file.
    ///   - offset: The first byte; 0 for the beginning.
    ///   - count: The number of bytes; fewer are returned only at the end.
    /// - Returns: The bytes, or `nil` if there is no such file.
    /// - Throws: ``StorageError`` if the bytes could not be read.
    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]?

    /// Lists the files that were last stored before a moment, in the order of their ids.
    ///
    /// - Parameters:
    ///   - moment: The time before which a file was last stored.
    ///   - id: The id after which the list starts; `nil` for the beginning.
    ///   - limit: The maximum number of ids.
    /// - Returns: The ids; fewer than the limit only at the end.
    /// - Throws: ``StorageError`` if the ids could not be read.
    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID]

    /// Removes a file, unless it was stored again at the moment or later.
    ///
    /// - Returns: Whether a file was removed.
    /// - Throws: ``StorageError`` if the file could not be removed.
    @discardableResult
    func remove(_ id: BlobID, keptBefore moment: Timestamp) async throws(StorageError) -> Bool

    /// The path of the local folder for thumbnails of the images; `nil` for none.
    ///
    /// The thumbnails can be made again, so copies of the data need not have them. Default: `nil`.
    var thumbnailFolder: String? { get }
}

extension BlobStore {
    /// No folder.
    public var thumbnailFolder: String? { nil }
}
