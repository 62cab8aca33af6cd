import SanguineModel

/// A request to an S3 storage, before it is signed.
struct S3Message: Sendable {
    /// The permission that a request needs.
    enum Action: String, Sendable {
        case put = "s3:PutObject"
        case get = "s3:GetObject"
        case delete = "s3:DeleteObject"
        case list = "s3:ListBucket"
        case versioning = "s3:GetBucketVersioning"
    }

    let action: Action
    let method: String
    /// The key of an object; `nil` for the bucket.
    var key: String?
    var query: [(name: String, value: String)] = []
    var headers: [(name: String, value: String)] = []
    var body: [UInt8] = []
    /// The SHA-256 of the body, in hexadecimal digits.
    var contentHash = S3Signature.emptyHash
    /// The maximum number of bytes that are read of a response to this request.
    var responseBytes = S3Message.documentBytes

    /// The maximum size of a document in XML, such as a list of 1,000 keys: 2 MiB.
    static let documentBytes = 1 << 21

    init(_ action: Action, _ method: String, key: String? = nil) {
        (self.action, self.method, self.key) = (action, method, key)
    }
}

/// A signed request.
struct S3Exchange: Sendable {
    var method: String
    var url: String
    var headers: [(name: String, value: String)]
    var body: [UInt8]
    /// The maximum number of bytes to read of the response's body.
    var responseBytes: Int
}

/// A response of an S3 storage.
struct S3Reply: Sendable {
    var status: Int
    /// The headers; names are in lowercase.
    var headers: [String: String] = [:]
    /// The body, at most as much of it as the request allows.
    var body: [UInt8] = []

    var isSuccess: Bool { (200..<300).contains(status) }
}
