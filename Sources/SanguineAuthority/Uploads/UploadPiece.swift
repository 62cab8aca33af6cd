import SanguineModel

/// A piece of a resumable upload, as the blob store has it.
///
/// The stored bytes begin with a line that names the upload and the request. So no piece equals a
/// file or a piece of another request, even one that repeats the same bytes. It can be removed as
/// soon as its upload does not need it, and a sweep that finds it knows where to look. No account
/// can read a piece: it has no ``BlobRow``.
package struct UploadPiece: Hashable {
    /// The size of a piece without its first line, except for the last one: 1 MiB.
    ///
    /// Bytes that were received, but do not fill a piece, are sent again after a crash of the
    /// server.
    package static let bytes = 1 << 20
    /// The maximum number of bytes of the first line.
    static let lineBytes = 160

    private static let prefix = "sanguine upload piece 1 "

    /// The owner of the upload.
    let account: Identifier
    /// The upload.
    let upload: UploadID
    /// The request that has sent the bytes.
    let request: Identifier

    init(of upload: StoredUpload, from request: Identifier) {
        self.init(account: upload.account, upload: upload.id, request: request)
    }

    init(account: Identifier, upload: UploadID, request: Identifier) {
        (self.account, self.upload, self.request) = (account, upload, request)
    }

    /// Reads the first line of stored bytes; returns `nil` for bytes that are not a piece.
    init?(beginningOf bytes: [UInt8]) {
        guard bytes.starts(with: Self.prefix.utf8) else { return nil }
        let rest = bytes.dropFirst(Self.prefix.utf8.count).prefix(Self.lineBytes)
        guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        let parts = String(decoding: rest[..<end], as: UTF8.self).split(separator: " ")
        guard parts.count == 3, let account = Identifier(String(parts[0])),
            let upload = UploadID(String(parts[1])), let request = Identifier(String(parts[2]))
        else { return nil }
        self.init(account: account, upload: upload, request: request)
    }

    /// The first line.
    var line: [UInt8] { Array("\(Self.prefix)\(account) \(upload) \(request)\n".utf8) }
}
