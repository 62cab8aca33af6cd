import Foundation
import Logging
import SanguineModel

/// What a ``SyncKeeper`` is given.
struct SyncEnvironment: Sendable {
    let schema: RecordSchema
    /// Where the user's files lie; `nil` keeps everything in memory.
    let folder: URL?
    let isCompanion: Bool
    /// In a companion: looks whether the app shows another user by now, and sees to it if so.
    var isMoved: @Sendable () -> Bool = { false }
    let clock: any WallClock
    let delay: any Clock<Duration>
    let random: RandomSource
    let logger: Logger
    /// How often the feed is pulled in the foreground; `nil` for never.
    let pollInterval: Duration?
    /// Is called after a write that is durable.
    let durableWrites: (@Sendable () -> Void)?
    /// Is told of each failure of the records' file.
    let report: @Sendable (String) -> Void
    /// Takes in what the feed has beside records: the balance, quotas, the account.
    ///
    /// The flag says that the feed has begun afresh, so that its numbers are others.
    var carry: (@Sendable (RecordChange, _ isReset: Bool) -> Void)?
    /// Is told of changes of the outbox.
    let news: OutboxNews
    /// Is told how much of a long feed is restored.
    let restores: Followers<Double>

    init(
        _ configuration: SanguineClient.Configuration,
        folder: URL?,
        isCompanion: Bool = false,
        news: OutboxNews,
        restores: Followers<Double>,
        report: @escaping @Sendable (String) -> Void
    ) {
        schema = configuration.schema
        self.folder = folder
        self.isCompanion = isCompanion
        clock = configuration.clock
        delay = configuration.delay
        random = configuration.random
        logger = configuration.logger
        pollInterval = configuration.recordPolling
        durableWrites = configuration.durableWrites
        self.report = report
        self.news = news
        self.restores = restores
    }
}

/// How a ``SyncKeeper`` reaches the server, and when.
struct SyncNetwork: Sendable {
    let call: ServerCall
    let lifecycle: any Lifecycle
    let connectivity: any Connectivity
    /// The device whose sequence numbers the operations have.
    let deviceId: @Sendable () throws(SanguineError) -> String

    init(
        _ call: ServerCall,
        _ configuration: SanguineClient.Configuration,
        deviceId: @escaping @Sendable () throws(SanguineError) -> String
    ) {
        self.call = call
        lifecycle = configuration.lifecycle
        connectivity = configuration.connectivity
        self.deviceId = deviceId
    }
}
