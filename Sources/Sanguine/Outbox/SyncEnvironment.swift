import Foundation
import Logging
import SanguineModel

/// What a ``SyncKeeper`` is given.
struct SyncEnvironment: Sendable {
    let schema: RecordSchema
    /// Where the files lie; `nil` keeps everything in memory.
    let folder: URL?
    let isCompanion: Bool
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
    /// Where models change.
    let turn: MainTurn

    init(
        _ configuration: SanguineClient.Configuration,
        isCompanion: Bool = false,
        turn: MainTurn,
        report: @escaping @Sendable (String) -> Void
    ) {
        schema = configuration.schema
        folder = configuration.storeFolder
        self.isCompanion = isCompanion
        clock = configuration.clock
        delay = configuration.delay
        random = configuration.random
        logger = configuration.logger
        pollInterval = configuration.recordPolling
        durableWrites = configuration.durableWrites
        self.report = report
        self.turn = turn
    }
}

/// How a ``SyncKeeper`` reaches the server, and when.
struct SyncNetwork: Sendable {
    let call: ServerCall
    let lifecycle: any Lifecycle
    let connectivity: any Connectivity
    /// The device whose sequence numbers the operations have.
    let deviceId: @Sendable () throws(SanguineError) -> String
}
