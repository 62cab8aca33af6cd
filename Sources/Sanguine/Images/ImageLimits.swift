import SanguineModel

/// The limits and defaults of images.
public enum ImageLimits {
    /// The maximum cost of the decoded images in memory, unless configured otherwise: 100 MB.
    ///
    /// The cost of a decoded image is four bytes for each pixel, or the size of its file where
    /// images are not decoded.
    public static let memoryBytes = 100_000_000
    /// The maximum number of decoded images in memory, unless configured otherwise: 500.
    public static let memoryImages = 500
    /// The maximum size of the image files of a user on disk, and of those that all users share,
    /// unless configured otherwise: 200 MB each.
    public static let diskBytes: Int64 = 200_000_000
    /// The maximum size of one image file that is loaded: 25 MiB.
    public static let fileBytes = ClientLimits.fileBytes
    /// The maximum number of pixels of an image that is decoded: 50 million.
    ///
    /// An image with more pixels is refused, however small its file is.
    public static let sourcePixels = WireLimits.blobPixels
    /// The sizes at which images are requested and decoded, as the longest side in pixels.
    ///
    /// A requested size is rounded up to one of these, so that views whose sizes differ by a pixel
    /// share an image. They are also the sizes of the server's thumbnails.
    public static let sides = WireLimits.imageSides
    /// The longest side in pixels of the thumbnail that is loaded first: 128.
    public static let thumbnailSide = 128
    /// The shortest requested side in pixels for which a thumbnail is loaded first: 384.
    ///
    /// A smaller image arrives about as fast as its thumbnail.
    public static let thumbnailFrom = 384
    /// The number of images that are decoded at once: 2.
    public static let decoders = 2
    /// The number of concurrent image requests to one host: 6.
    ///
    /// They do not use the slots of other reads, so that data never waits behind images.
    public static let requestsPerHost = 6
    /// The number of redirects that are followed to another host: 5.
    public static let redirects = 5
    /// The number of image files that wait to be written to disk: 64.
    ///
    /// Beyond that, an image stays in memory only.
    public static let waitingWrites = 64
    /// The time for which an image of a URL is fresh if its response does not say: 1 day.
    public static let freshness: Duration = .hours(24)
    /// The longest such time that a response can set: 1 year.
    public static let longestFreshness: Duration = .hours(365 * 24)
    /// The number of images in one call of ``Images/prefetch(_:fitting:)``: 200.
    public static let prefetched = 200
    /// The maximum number of characters of an image's address: 8,192.
    public static let urlCharacters = 8_192
}
