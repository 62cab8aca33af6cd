/// Numbers of a client's images since it was created.
public struct ImageStatistics: Hashable, Codable, Sendable {
    /// Requests for an image that was decoded and in memory.
    public var memoryHits = 0
    /// Requests whose file was on disk.
    public var diskHits = 0
    /// Requests that had to wait for a host.
    public var misses = 0
    /// Requests that joined one of the same image.
    public var shared = 0
    /// Requests that ended because no caller was waiting for the image.
    public var cancelled = 0
    /// Requests that failed.
    public var failed = 0
    /// Files that were asked for from hosts, including thumbnails.
    public var requests = 0
    /// Bytes that hosts have sent.
    public var receivedBytes = 0
    /// Thumbnails that were dropped because the full image was faster.
    public var lateThumbnails = 0
    /// Images that were checked with their host and had not changed.
    public var unchanged = 0
    /// Images that were evicted from memory.
    public var evictedFromMemory = 0
    /// Files that were evicted from disk.
    public var evictedFromDisk = 0
    /// Files on disk that were damaged, and removed.
    public var damagedFiles = 0
    /// Files that could not be written to disk, or not in time.
    public var unwrittenFiles = 0
    /// The number of images in memory now.
    public var memoryImages = 0
    /// The cost of the images in memory now, in bytes.
    public var memoryBytes = 0
    /// The number of images in memory that a view shows.
    public var visibleImages = 0
    /// The bytes of the files on disk, as far as they were used since the client was created.
    public var diskBytes = 0

    /// Creates numbers, for tests and previews; each is 0.
    public init() {}

    /// Whether any image was requested.
    var wereUsed: Bool { memoryHits + diskHits + misses + cancelled + failed + memoryImages > 0 }

    /// The fraction of requests that were answered from memory or disk, from 0 to 1; `nil` without
    /// requests.
    public var hitRate: Double? {
        let all = memoryHits + diskHits + misses
        return all == 0 ? nil : Double(memoryHits + diskHits) / Double(all)
    }
}

extension ImageStatistics: CustomStringConvertible {
    /// Two lines for a report.
    public var description: String {
        """
        requests: \(memoryHits) from memory, \(diskHits) from disk, \(misses) from hosts, \
        \(shared) shared, \(cancelled) cancelled, \(failed) failed, \(lateThumbnails) late \
        thumbnails
        kept: \(memoryImages) in memory (\(memoryBytes) bytes, \(visibleImages) visible), \
        \(diskBytes) bytes on disk; evicted: \(evictedFromMemory) and \(evictedFromDisk), damaged: \
        \(damagedFiles), unwritten: \(unwrittenFiles)
        """
    }
}
