/// A member of records that names uploaded files.
///
/// ```swift
/// RecordCollection("posts", access: .everyone, blobs: ["photo", .publicly("cover")])
/// ```
///
/// The value is the id of a file, or an object with the id as its member `id`, such as a stored
/// ``BlobFacts``; or a list of at most ``WireLimits/blobsPerRecord`` of them. An account that may
/// read the record may read the files that it names, until the record is deleted or changed. Only
/// an account that may read a file can name it.
public struct BlobField: Hashable, Sendable, ExpressibleByStringLiteral {
    /// The name of the member.
    public let name: String
    /// Whether the files have a URL that needs no token, and that shared caches may keep.
    public let isPublic: Bool

    /// Declares a member that names files for the readers of the record.
    public init(_ name: String) { self.init(name, isPublic: false) }

    /// Declares a member that names files for the readers of the record.
    public init(stringLiteral name: String) { self.init(name) }

    private init(_ name: String, isPublic: Bool) {
        self.name = name
        self.isPublic = isPublic
    }

    /// Declares a member that names files for everyone, without a token.
    ///
    /// Allowed for collections that everyone may read.
    public static func publicly(_ name: String) -> BlobField { BlobField(name, isPublic: true) }

    /// Returns the ids that a value names, and the number of its elements that name none.
    package static func ids(in value: JSONValue?) -> (ids: [String], others: Int) {
        switch value {
        case nil, .null?: return ([], 0)
        case .array(let elements)?:
            let ids = elements.compactMap(id)
            return (ids, elements.count - ids.count)
        case let single?:
            guard let id = id(single) else { return ([], 1) }
            return ([id], 0)
        }
    }

    private static func id(_ value: JSONValue) -> String? {
        switch value {
        case .string(let text): text
        case .object(let members): members["id"]?.string
        default: nil
        }
    }
}
