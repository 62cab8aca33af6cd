/// The properties of a stored file, and the response to `POST /v1/blobs`.
public struct BlobFacts: Hashable, Codable, Sendable {
    /// The SHA-256 of the stored bytes, in hexadecimal digits.
    ///
    /// The location of a picture is removed before it is stored, so this is not the hash of the
    /// uploaded bytes.
    public var id: String
    /// The number of stored bytes.
    public var size: Int
    /// The content type, detected from the content: `image/jpeg`, `video/mp4`, ….
    public var type: String
    /// The width of an image in pixels, before its orientation is applied.
    public var width: Int?
    /// The height of an image in pixels, before its orientation is applied.
    public var height: Int?
    /// The placeholder of an image, for the record that names it; `nil` for a video, and from a
    /// server that cannot decode images.
    public var placeholder: ThumbHash?

    /// Creates the properties.
    public init(
        id: String,
        size: Int,
        type: String,
        width: Int? = nil,
        height: Int? = nil,
        placeholder: ThumbHash? = nil
    ) {
        self.placeholder = placeholder
        self.id = id
        self.size = size
        self.type = type
        self.width = width
        self.height = height
    }
}

/// The state of a resumable upload, and the response to `GET /v1/uploads/{id}`.
public struct UploadStatus: Hashable, Codable, Sendable {
    /// The id of the upload.
    public var id: String
    /// The size of the file in bytes.
    public var length: Int
    /// The number of bytes that the server has stored.
    public var offset: Int
    /// The time after which the upload is removed, unless more bytes arrive.
    public var expiresAt: Timestamp
    /// The stored file; `nil` until the upload is finished.
    public var file: BlobFacts?

    /// Creates the state.
    public init(
        id: String,
        length: Int,
        offset: Int,
        expiresAt: Timestamp,
        file: BlobFacts? = nil
    ) {
        self.id = id
        self.length = length
        self.offset = offset
        self.expiresAt = expiresAt
        self.file = file
    }
}

/// The resumable uploads of an account, and the response to `GET /v1/uploads`.
public struct UploadList: Hashable, Codable, Sendable {
    /// The uploads, at most ``WireLimits/uploadsPerAccount``.
    public var items: [UploadStatus]

    /// Creates the list.
    public init(items: [UploadStatus]) { self.items = items }
}

/// The URL of a file that needs no token, and the response to `GET /v1/blobs/{id}/link`.
public struct BlobLink: Hashable, Codable, Sendable {
    /// The path and query of the URL, relative to the server's origin.
    ///
    /// A file that a record names publicly always has the path `/v1/public/blobs/{id}`. For other
    /// files the URL is signed.
    public var url: String
    /// The time until which a signed URL is valid; `nil` for a public file.
    public var expiresAt: Timestamp?

    /// Creates the link.
    public init(url: String, expiresAt: Timestamp? = nil) {
        self.url = url
        self.expiresAt = expiresAt
    }
}
