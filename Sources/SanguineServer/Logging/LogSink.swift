import Foundation
import Synchronization

/// Where finished lines of a log go.
public protocol LogSink: Sendable {
    /// Writes whole lines, each with its line feed. May block; is never called from an event loop
    /// by ``AccessLog``.
    func write(_ lines: [UInt8])
}

/// The process's standard output or standard error.
///
/// Lines are written whole, one writer at a time. What the system refuses, because whoever read the
/// stream is gone or does not read on, is dropped: a log must not stop the server.
public final class StandardStream: LogSink {
    /// Standard output.
    public static let output = StandardStream(descriptor: STDOUT_FILENO)
    /// Standard error.
    public static let error = StandardStream(descriptor: STDERR_FILENO)

    // Held while the system writes, so that two lines never mix. It guards no other state.
    private let turn = Mutex(())
    private let descriptor: Int32

    init(descriptor: Int32) { self.descriptor = descriptor }

    /// Writes the lines, and returns when the system has taken them.
    public func write(_ lines: [UInt8]) {
        turn.withLock { _ in
            lines.withUnsafeBytes { buffer in
                var rest = buffer[...]
                while let base = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
                    let count = Foundation.write(descriptor, base, rest.count)
                    if count < 0 && errno == EINTR { continue }
                    guard count > 0 else { return }
                    rest = rest.dropFirst(count)
                }
            }
        }
    }
}
