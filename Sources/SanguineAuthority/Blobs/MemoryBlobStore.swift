public import SanguineModel
import Synchronization

/// Stores the bytes of files in memory, for tests and previews.
///
/// Mutable state: `state`, guarded by its mutex. Bounded by the space of the accounts.
public final class MemoryBlobStore: BlobStore {
    private struct State {
        var files: [BlobID: (bytes: [UInt8], at: Timestamp)] = [:]
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Creates an empty store.
    public init() {}

    /// Stores the bytes.
    public func keep(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async throws(StorageError) {
        try withFiles { $0[id] = (bytes, max(moment, $0[id]?.at ?? moment)) }
    }

    /// Reads a part of a file.
    public func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]? {
        try withFiles { files in
            files[id].map { Array($0.bytes.dropFirst(max(0, offset)).prefix(max(0, count))) }
        }
    }

    /// Lists the files that were last stored before a moment.
    public func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID] {
        try withFiles { files in
            let old = files.filter { file in
                file.value.at < moment && id.map { $0 < file.key } ?? true
            }
            return Array(old.keys.sorted().prefix(max(0, limit)))
        }
    }

    /// Removes a file, unless it was stored again.
    @discardableResult
    public func remove(
        _ id: BlobID,
        keptBefore moment: Timestamp
    ) async throws(StorageError) -> Bool {
        try withFiles { files in
            guard let file = files[id], file.at < moment else { return false }
            files[id] = nil
            return true
        }
    }

    /// Removes all files; later calls throw ``StorageError/closed``.
    func close() {
        state.withLock { state in
            state.files = [:]
            state.isClosed = true
        }
    }

    private func withFiles<Value: Sendable>(
        _ body: (inout [BlobID: (bytes: [UInt8], at: Timestamp)]) -> Value
    ) throws(StorageError) -> Value {
        let value = state.withLock { state -> Value? in
            state.isClosed ? nil : body(&state.files)
        }
        guard let value else { throw .closed }
        return value
    }
}
