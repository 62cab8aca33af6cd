import SanguineModel
import TestSupport

@testable import SanguineAuthority

/// An account that uploads files in parts.
struct UploadWorld {
    let world: SyncWorld

    /// A video of a few pieces.
    static let film = SampleFile.mp4.bytes(filler: 5 * (UploadPiece.bytes / 2))

    /// The id of the video as it is stored.
    static func storedFilm() async throws(Problem) -> BlobID {
        let account = Identifier.numbered(1)
        return BlobID(of: try await BlobContent(film, for: account, by: UnscaledImages()).bytes)
    }

    init(_ change: (inout AuthoritySettings) -> Void = { _ in }) async throws {
        world = try await SyncWorld(change)
    }

    var authority: Authority { world.authority }

    func create(
        _ length: Int = Self.film.count,
        metadata: String? = nil,
        key: String? = nil
    ) async throws(Problem) -> StoredUpload {
        try await authority.createUpload(
            length: length,
            metadata: metadata,
            key: key,
            for: world.account
        ).upload
    }

    func receiver(
        _ upload: StoredUpload,
        checksum: String? = nil
    ) async throws(Problem) -> UploadReceiver {
        try await UploadReceiver(
            upload,
            checksum: try checksum.map { text throws(Problem) in try UploadChecksum(text) },
            authority: authority,
            reserve: { _ in },
            confirm: {}
        )
    }

    /// Sends a whole body in parts.
    @discardableResult
    func send(
        _ bytes: some Collection<UInt8> & Sendable,
        to upload: StoredUpload,
        checksum: String? = nil,
        parts: Int = 300_000
    ) async throws(Problem) -> StoredUpload {
        var receiver = try await receiver(upload, checksum: checksum)
        var rest = bytes[...]
        while !rest.isEmpty {
            try await receiver.receive(Array(rest.prefix(parts)))
            rest = rest.dropFirst(parts)
        }
        return try await receiver.end()
    }

    /// The bytes that count for the account.
    func takenBytes() async throws -> Int64 {
        try await world.storage.load([.feed(world.account)]).feed(world.account)?.bytes ?? 0
    }

    /// The ids of everything in the store of files.
    func stored() async throws -> Set<BlobID> {
        let end = Timestamp(millisecondsSince1970: .max)
        return Set(try await world.storage.blobs.kept(before: end, after: nil, limit: 100))
    }
}
