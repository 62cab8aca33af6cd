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

/// Where the command's words go: data to standard output, complaints to standard error.
enum Output {
    /// Standard output cannot be written.
    struct Unwritable: Error, CustomStringConvertible {
        let number: Int32

        /// Whether whoever read it reads no more, as `head` does when it has enough: no word is
        /// said of that.
        var isClosedPipe: Bool { number == EPIPE }

        var description: String {
            let reason = String(cString: strerror(number))
            return """
                Standard output cannot be written (\(reason)). Free some space, or send it \
                somewhere else. What was asked for may have been done.
                """
        }
    }

    // What could not be announced. Guarded by the mutex: servers announce from their own threads.
    private static let unannounced = Mutex<Unwritable?>(nil)

    /// Prepares the process: a write that fails is an error, and ends nothing.
    static func prepare() {
        // A closed pipe would end the process without a word of what it has done.
        signal(SIGPIPE, SIG_IGN)
        // A closed descriptor would be given to the next file that is opened, a database perhaps.
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
            // Wrong way round, so that each use fails.
            _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Writes a line to standard output.
    ///
    /// - Throws: ``Unwritable`` if it cannot be written whole.
    static func write(_ line: String) throws(Unwritable) {
        // Written whole, so that a program that waits for the line gets it now.
        try write(line, to: STDOUT_FILENO)
    }

    /// Writes a line to standard error, after those of the log.
    ///
    /// Where nothing can be said of a failure, nothing is.
    static func complain(_ line: String) {
        LogQueue.standardError.append(Array((line + "\n").utf8))
    }

    /// Returns once standard error has taken what was said, or a second later: a reader that has
    /// stopped reading keeps no process.
    static func finishComplaints() async {
        await LogQueue.standardError.flush(within: .seconds(1))
    }

    /// Writes a value as one line of JSON to standard output.
    static func write(json value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try write(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Writes the line of a server that listens.
    ///
    /// If it cannot be written, the server is asked to stop, since whoever waits for the line would
    /// wait for ever. ``checkAnnouncements()`` then throws. It is written by a thread of its own: a
    /// pipe that nobody reads keeps no request waiting.
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

    private static func write(_ line: String, to descriptor: Int32) throws(Unwritable) {
        var rest = Array((line + "\n").utf8)[...]
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
                // Somebody else has made it non-blocking.
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                poll(&waiting, 1, -1)
            default: throw Unwritable(number: number)
            }
        }
    }
}

// Outside of the type, whose own `write` would hide the system's.
private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}

/// A failure whose sentence is all that there is to say.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension Duration {
    /// The duration as a person says it: `4 s`, `3 min`, `2 h`, `5 days`.
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
