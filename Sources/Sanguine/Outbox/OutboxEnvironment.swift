import Foundation
import Logging
import SanguineModel

/// The dependencies of an ``OutboxEngine`` and its ``UserRecords``.
struct OutboxEnvironment: Sendable {
    let schema: RecordSchema
    /// The folder of the user's files; `nil` keeps everything in memory.
    let folder: URL?
    let isCompanion: Bool
    let clock: any WallClock
    let delay: any Clock<Duration>
    let random: RandomSource
    let logger: Logger
    let lifecycle: any Lifecycle
    let connectivity: any Connectivity
    let fault: PlantedFault?
    /// Called after each durable write.
    let durableWrites: (@Sendable () -> Void)?
    /// Called for each failure of a file, with the reason and its meaning.
    let report: @Sendable (_ reason: String, _ meaning: String) -> Void
    /// Notified of changes to the outbox.
    let notifier: OutboxNotifier
    /// Counts the outcomes; `nil` counts none.
    let metrics: ClientMetrics?

    init(
        _ configuration: SanguineClient.Configuration,
        folder: URL?,
        isCompanion: Bool = false,
        notifier: OutboxNotifier,
        metrics: ClientMetrics? = nil,
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
        self.notifier = notifier
        self.metrics = metrics
    }

    /// Creates an id for a new operation.
    func newId() -> Identifier {
        var random = random
        return Identifier(at: clock.now(), using: &random)
    }
}
