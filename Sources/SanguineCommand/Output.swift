import Foundation
import SanguineServer
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Writes the command's output: data to standard output, messages to standard error.
enum Output {
    /// An error of writing to standard output.
    struct Unwritable: Error, CustomStringConvertible {
        let number: Int32

        /// Whether the reader has closed the pipe, as `head` does when it has enough, which is not
        /// reported.
        var isClosedPipe: Bool { number == EPIPE }

        var description: String {
            let reason = String(cString: strerror(number))
            return """
                Standard output cannot be written (\(reason)). Free some space, or redirect it. \
                The command may have taken effect.
                """
        }
    }

    // A failed announcement. Guarded by the mutex, because servers announce from separate threads.
    private static let unannounced = Mutex<Unwritable?>(nil)

    /// Prepares the process, so that failed writes become errors instead of ending it.
    static func prepare() {
        // By default, writing to a closed pipe would end the process without any message.
        signal(SIGPIPE, SIG_IGN)
        // A closed descriptor would be reused for the next opened file, such as a database.
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // Opened for the opposite access, so that every read or write fails.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Writes a line to standard output.
    ///
    /// - Throws: ``Unwritable`` if it cannot be written completely.
    static func write(_ line: String) throws(Unwritable) {
        // Unbuffered, so that a program that waits for the line receives it now.
        try write(line, to: STDOUT_FILENO)
    }

    /// Writes a line to standard error, after those of the log.
    ///
    /// Failures to do so are ignored.
    static func writeError(_ line: String) {
        LogQueue.standardError.append(Array((line + "\n").utf8))
    }

    /// Returns when standard error has accepted all messages, or after a second, so that a reader
    /// that stopped reading cannot block the process.
    static func finishErrors() async {
        await LogQueue.standardError.flush(within: .seconds(1))
    }

    /// Writes a value to standard output as one line of JSON.
    static func write(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try write(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Writes the line of a listening server.
    ///
    /// If it cannot be written, the server is stopped, because a program that waits for the line
    /// would wait forever. ``checkAnnouncements()`` then throws. A separate thread writes the line,
    /// so that an unread pipe does not block requests.
    static func announce(_ line: String) {
        Thread.detachNewThread {
            do {
                try write(line)
            } catch {
                unannounced.withLock { $0 = error as? Unwritable }
                kill(getpid(), SIGTERM)
            }
        }
    }

    /// - Throws: ``Unwritable`` if an announcement could not be written.
    static func checkAnnouncements() throws(Unwritable) {
        if let failure = unannounced.withLock({ $0 }) { throw failure }
    }

    /// Writes bytes to standard output.
    ///
    /// - Throws: ``Unwritable`` if they cannot be written completely.
    static func write(_ bytes: [UInt8]) throws(Unwritable) {
        try write(bytes, to: STDOUT_FILENO)
    }

    private static func write(_ line: String, to descriptor: Int32) throws(Unwritable) {
        try write(Array((line + "\n").utf8), to: descriptor)
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) throws(Unwritable) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { systemWrite(descriptor, $0) }
            if written > 0 {
                rest = rest.dropFirst(written)
                continue
            }
            let number = errno
            switch number {
            case EINTR: continue
            case EAGAIN:
                // Another process made the descriptor non-blocking.
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&waiting, 1, -1)
            default: throw Unwritable(number: number)
            }
        }
    }
}

// Outside of the type, whose own `write` would shadow the system's.
private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}

/// An error that consists only of a message.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension Duration {
    /// The duration in words: `4 s`, `3 min`, `2 h`, `5 days`.
    var spoken: String {
        let seconds = components.seconds
        return switch seconds {
        case ..<1: "a moment"
        case ..<90: "\(seconds) s"
        case ..<5_400: "\((seconds + 30) / 60) min"
        case ..<129_600: "\((seconds + 1_800) / 3_600) h"
        default: "\((seconds + 43_200) / 86_400) days"
        }
    }
}
