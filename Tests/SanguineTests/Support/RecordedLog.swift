import Logging
import Synchronization

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
            log.recorded.withLock { $0.append("\(event.message)") }
        }
    }

    private let recorded = Mutex<[String]>([])

    var messages: [String] { recorded.withLock { $0 } }
    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }
}
