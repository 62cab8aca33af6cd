import Foundation
import Synchronization

/// The destination of complete log lines.
public protocol LogSink: Sendable {
    /// Writes complete lines, each including its line feed.
    ///
    /// It may block: a ``LogQueue`` calls it on its own thread.
    func write(_ lines: [UInt8])
}

/// The process's standard output or standard error.
///
/// Lines are written completely, by one writer at a time. If the system rejects bytes because the
/// reader has closed the stream, they are dropped: a log must not stop the server.
public final class StandardStream: LogSink {
    /// Standard output.
    public static let output = StandardStream(descriptor: STDOUT_FILENO)
    /// Standard error.
    public static let error = StandardStream(descriptor: STDERR_FILENO)

    // Locked while the system writes, so that lines do not mix. It guards no other state.
    private let turn = Mutex(())
    private let descriptor: Int32

    init(descriptor: Int32) { self.descriptor = descriptor }

    /// Waits until a stream that another process made non-blocking accepts bytes again.
    private func waited(on error: Int32) -> Bool {
        guard error == EAGAIN || error == EWOULDBLOCK else { return false }
        var watched = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        return poll(&watched, 1, -1) > 0 || errno == EINTR
    }

    /// Writes the lines, and returns when the system has accepted them.
    public func write(_ lines: [UInt8]) {
        turn.withLock { _ in
            lines.withUnsafeBytes { buffer in
                var rest = buffer[...]
                while let base = UnsafeRawBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
                    let count = Foundation.write(descriptor, base, rest.count)
                    if count < 0 && (errno == EINTR || waited(on: errno)) { continue }
                    guard count > 0 else { return }
                    rest = rest.dropFirst(count)
                }
            }
        }
    }
}
