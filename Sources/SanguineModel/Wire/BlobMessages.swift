/// What is known of a stored file without reading it: the answer to `POST /v1/blobs`.
public struct BlobFacts: Hashable, Codable, Sendable {
    /// SHA-256 of the bytes that are stored, in hexadecimal digits.
    ///
    /// What says where a picture was taken is removed before, so it is not the hash of what was
    /// sent.
    public var id: String
    /// The bytes that are stored.
    public var size: Int
    /// The type, by the content: `image/jpeg`, `video/mp4`, ….
    public var type: String
    /// The width of an image in pixels, before it is turned as its orientation says.
    public var width: Int?
    /// The height of an image in pixels, before it is turned as its orientation says.
    public var height: Int?

    /// Creates facts.
    public init(id: String, size: Int, type: String, width: Int? = nil, height: Int? = nil) {
        self.id = id
        self.size = size
        self.type = type
        self.width = width
        self.height = height
    }
}
