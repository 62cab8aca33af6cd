/// Decides when to log that the disk of the data folder is filling up.
///
/// It warns when the free space falls below the limit, and once an hour while it stays there. It
/// reports that there is room again only above the limit plus 10 percent, to avoid repetitions.
struct SpaceWatch {
    /// The time between two warnings.
    static let pause = Duration.seconds(3_600)

    /// The message to log.
    enum Message: Equatable {
        case low
        case enough
    }

    private let limit: Int64
    private var warnedAt: Duration?

    /// Creates a watch.
    ///
    /// - Parameter limit: The free bytes below which it warns; 0 to never warn.
    init(limit: Int) { self.limit = Int64(limit) }

    /// Checks the free space.
    ///
    /// - Parameters:
    ///   - free: The free bytes, or `nil` if unknown.
    ///   - now: The time since an arbitrary start.
    /// - Returns: The message to log, or `nil`.
    mutating func check(_ free: Int64?, at now: Duration) -> Message? {
        guard let free else { return nil }
        guard free >= limit else {
            if let warnedAt, now - warnedAt < Self.pause { return nil }
            warnedAt = now
            return .low
        }
        guard warnedAt != nil, free - limit >= limit / 10 else { return nil }
        warnedAt = nil
        return .enough
    }
}
