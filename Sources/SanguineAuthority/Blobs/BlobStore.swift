public import SanguineModel

/// Keeps the bytes of files by their content.
///
/// Whose a file is stands in a ``BlobRow``. Bytes are kept before the row that names them, so a row
/// never lacks them; bytes that no row names are what a death in between has left, and are removed
/// after a grace.
public protocol BlobStore: Sendable {
    /// Keeps the bytes, and returns when they are durable.
    ///
    /// What is there already is kept again: it counts as kept at the later moment. Cancelling the
    /// calling task does not abort it.
    ///
    /// - Parameters:
    ///   - bytes: The content.
    ///   - id: Its name, which the caller has made of it.
    ///   - moment: The present.
    /// - Throws: ``StorageError``; nothing is kept then that was not there before.
    func keep(_ bytes: [UInt8], as id: BlobID, at moment: Timestamp) async throws(StorageError)

    /// Reads a part.
    ///
    /// - Parameters:
    ///   - id: What is read.
    ///   - offset: The first byte; 0 for the beginning.
    ///   - count: How many bytes; fewer come only at the end.
    /// - Returns: The bytes, or `nil` if there is no such file.
    /// - Throws: ``StorageError`` if they could not be read.
    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]?

    /// Lists what was last kept before a moment, in the order of the ids.
    ///
    /// - Parameters:
    ///   - moment: Only what was kept before.
    ///   - id: Only what comes after it; `nil` from the first.
    ///   - limit: How many at most.
    /// - Returns: The ids; fewer than the limit only at the end.
    /// - Throws: ``StorageError`` if they could not be read.
    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID]

    /// Removes a file, unless it was kept again at the moment or later.
    ///
    /// - Returns: Whether it was there, and is not any more.
    /// - Throws: ``StorageError`` if it could not be removed.
    @discardableResult
    func remove(_ id: BlobID, keptBefore moment: Timestamp) async throws(StorageError) -> Bool
}
