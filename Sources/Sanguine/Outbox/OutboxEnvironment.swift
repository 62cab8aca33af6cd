import Foundation
import Logging
import SanguineModel

/// What an ``OutboxEngine`` and the ``UserRecords`` beside it are given.
struct OutboxEnvironment: Sendable {
    let schema: RecordSchema
    /// Where the user's files lie; `nil` keeps everything in memory.
    let folder: URL?
    let isCompanion: Bool
    let clock: any WallClock
    let delay: any Clock<Duration>
    let random: RandomSource
    let logger: Logger
    let lifecycle: any Lifecycle
    let connectivity: any Connectivity
    let fault: PlantedFault?
    /// Is called after a write that is durable.
    let durableWrites: (@Sendable () -> Void)?
    /// Is told of each failure of a file: the reason, and what it means.
    let report: @Sendable (_ reason: String, _ meaning: String) -> Void
    /// Is told of changes of the outbox.
    let news: OutboxNews

    init(
        _ configuration: SanguineClient.Configuration,
        folder: URL?,
        isCompanion: Bool = false,
        news: OutboxNews,
        report: @escaping @Sendable (_ reason: String, _ meaning: String) -> Void
    ) {
        schema = configuration.schema
        self.folder = folder
        self.isCompanion = isCompanion
        clock = configuration.clock
        delay = configuration.delay
        random = configuration.random
        logger = configuration.logger
        lifecycle = configuration.lifecycle
        connectivity = configuration.connectivity
        fault = configuration.plantedFault
        durableWrites = configuration.durableWrites
        self.report = report
        self.news = news
    }

    /// A new operation's id.
    func newId() -> Identifier {
        var random = random
        return Identifier(at: clock.now(), using: &random)
    }
}
