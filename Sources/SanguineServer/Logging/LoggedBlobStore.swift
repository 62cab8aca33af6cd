import SanguineAuthority
import SanguineModel

/// The blob store of a ``LoggedStorage``, which logs failures like the storage itself.
struct LoggedBlobStore: BlobStore {
    /// The underlying store.
    let store: any BlobStore
    /// Called with each failure and the action that failed.
    let onFailure: @Sendable (_ error: StorageError, _ action: String) -> Void

    func keep(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async throws(StorageError) {
        do throws(StorageError) {
            try await store.keep(bytes, as: id, at: moment)
        } catch {
            throw logged(error, "blobs.keep")
        }
    }

    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]? {
        do throws(StorageError) {
            return try await store.read(id, from: offset, count: count)
        } catch {
            throw logged(error, "blobs.read")
        }
    }

    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID] {
        do throws(StorageError) {
            return try await store.kept(before: moment, after: id, limit: limit)
        } catch {
            throw logged(error, "blobs.kept")
        }
    }

    func remove(_ id: BlobID, keptBefore moment: Timestamp) async throws(StorageError) -> Bool {
        do throws(StorageError) {
            return try await store.remove(id, keptBefore: moment)
        } catch {
            throw logged(error, "blobs.remove")
        }
    }

    var thumbnailFolder: String? { store.thumbnailFolder }

    private func logged(_ error: StorageError, _ action: String) -> StorageError {
        onFailure(error, action)
        return error
    }
}
