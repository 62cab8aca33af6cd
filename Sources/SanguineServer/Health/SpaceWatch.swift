/// Decides when the log says that the disk of the data is filling up.
///
/// It says so when the free bytes fall below the limit, and once an hour while they stay there.
/// They have risen again when there is a tenth more, so that a number that wavers is no flood.
struct SpaceWatch {
    /// The time between two warnings while nothing changes.
    static let pause = Duration.seconds(3_600)

    /// What to say.
    enum Message: Equatable {
        case low
        case enough
    }

    private let limit: Int64
    private var warnedAt: Duration?

    /// Creates a watch.
    ///
    /// - Parameter limit: The bytes below which it warns; 0 never.
    init(limit: Int) { self.limit = Int64(limit) }

    /// Looks at what is free.
    ///
    /// - Parameters:
    ///   - free: The free bytes, or `nil` if they are not known.
    ///   - now: The time since any start.
    /// - Returns: What to say, or `nil`.
    mutating func look(_ free: Int64?, at now: Duration) -> Message? {
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
