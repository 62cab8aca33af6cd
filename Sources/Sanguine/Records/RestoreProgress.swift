/// The progress of restoring the user's data on a new device.
///
/// ```swift
/// let restore = client.model(.restoreProgress)
/// if !restore.value.isComplete { ProgressView(value: restore.value.fraction) }
/// ```
///
/// Account, balance, quotas and the records of all collections are restored together, so there is
/// one progress for all of them.
public struct RestoreProgress: Hashable, Sendable {
    /// The restored part, from 0 to 1; it increases until the restore ends, even after a restart.
    ///
    /// It is 0 while nothing is known about the user's data, such as before a sign-in.
    public let fraction: Double
    /// Whether the records on this device are a complete state of the server, though perhaps an old
    /// one.
    ///
    /// After a server was restored from a backup, the fraction is less than 1 although this is
    /// `true`: the previous records are shown until the new ones are complete.
    public let isComplete: Bool

    /// Creates a progress, for previews and tests.
    public init(fraction: Double, isComplete: Bool) {
        (self.fraction, self.isComplete) = (fraction, isComplete)
    }

    /// The name by which observers follow the progress.
    static let collection = "$restore"

    /// The fraction at which only the changes since the beginning are missing.
    static let beforeCatchingUp = 0.99
}

extension RecordQuery where Value == RestoreProgress {
    /// The progress of restoring the user's data on a new device.
    ///
    /// It is observed like any other query, and follows the current user.
    public static var restoreProgress: Self {
        RecordQuery(following: RestoreProgress.collection) { records in
            let source = records.view.source
            return source.feed?.restore.progress
                ?? RestoreProgress(fraction: source.isWhole ? 1 : 0, isComplete: source.isWhole)
        }
        .known(RestoreProgress.collection)
    }
}
