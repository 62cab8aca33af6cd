import Foundation
import Logging
import Synchronization

@testable import Sanguine

/// Pauses a client when it logs a message, so that a test can act at that moment.
///
/// It blocks the thread that logs, for at most ``bound``, once each time it is armed.
///
/// Mutable state: `state`, protected by its mutex.
final class PausingLog: Sendable {
    private struct Handler: LogHandler {
        let log: PausingLog
        var metadata = Logger.Metadata()
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { log.pass("\(event.message)") }
    }

    private enum State {
        case open
        case armed(String)
        case stopped
    }

    private static let bound = 10.0  // Seconds.

    private let state = Mutex(State.open)
    private let goOn = DispatchSemaphore(value: 0)

    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    /// Whether a thread is paused until the test releases it.
    var isStopped: Bool {
        state.withLock { state in
            guard case .stopped = state else { return false }
            return true
        }
    }

    /// Pauses the thread that next logs the message.
    func arm(_ message: Logger.Message) { state.withLock { $0 = .armed("\(message)") } }

    /// Lets the paused thread continue.
    func release() {
        state.withLock { $0 = .open }
        goOn.signal()
    }

    private func pass(_ message: String) {
        let isHere = state.withLock { state in
            guard case .armed(message) = state else { return false }
            state = .stopped
            return true
        }
        guard isHere else { return }
        _ = goOn.wait(timeout: .now() + Self.bound)
    }
}
