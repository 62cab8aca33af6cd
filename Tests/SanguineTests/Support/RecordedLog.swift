import Logging
import Synchronization

@testable import Sanguine

/// Records the messages that a client logs.
final class RecordedLog: Sendable {
    private struct Handler: LogHandler {
        let log: RecordedLog
        var metadata = Logger.Metadata()
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let line = Line(message: "\(event.message)", metadata: event.metadata ?? [:])
            log.recorded.withLock { $0.append(line) }
        }
    }

    /// A recorded line.
    struct Line: Sendable {
        let message: String
        let metadata: Logger.Metadata

        /// The message and the metadata as text.
        var text: String {
            message + metadata.map { " \($0)=\($1)" }.sorted().joined()
        }
    }

    private let recorded = Mutex<[Line]>([])

    /// All lines.
    var lines: [Line] { recorded.withLock { $0 } }
    /// The messages of all lines except for steps.
    var messages: [String] { lines.map(\.message).filter { $0 != "\(StepLog.message)" } }
    /// The metadata of the steps.
    var steps: [Logger.Metadata] {
        lines.filter { $0.message == "\(StepLog.message)" }.map(\.metadata)
    }
    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }
}
