import SanguineModel

/// The settings of a client's images; see ``SanguineClient/Configuration/images``.
public struct ImageSettings: Sendable, Hashable {
    /// The maximum cost of the decoded images in memory, in bytes; at least 0.
    ///
    /// Default: 100 MB. The least recently used images are evicted first, and visible ones last.
    public var memoryBytes = ImageLimits.memoryBytes
    /// The maximum number of decoded images in memory; at least 0.
    ///
    /// Default: 500. Whichever of both limits is reached first applies.
    public var memoryImages = ImageLimits.memoryImages
    /// The maximum size in bytes of a user's image files on disk, and of those that all users share;
    /// at least 0.
    ///
    /// Default: 200 MB each.
    public var diskBytes = ImageLimits.diskBytes
    /// The rules that remove signatures from URLs.
    ///
    /// Default: those for S3, CloudFront, Google Cloud Storage and Azure.
    public var signedURLs = SignedURLRules.standard

    /// Creates settings with the default limits.
    public init() {}

    /// Throws if a limit is negative.
    func check() throws(SanguineError) {
        guard memoryBytes >= 0, memoryImages >= 0, diskBytes >= 0 else {
            throw .invalidDeclaration(
                "A limit of 'images' in SanguineClient.Configuration is negative. Set 0 or more."
            )
        }
    }
}
