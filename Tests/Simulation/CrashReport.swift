import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Names the seed and the step of a game in which the process crashes.
///
/// A trap ends the process at once: without this, the output would not name the seed to replay. The
/// handler allocates nothing and calls only `write`, `signal` and `_exit`, because anything else
/// may wait for a lock that the crashed thread holds.
///
/// Mutable state: the recorded values, written by the one thread that plays; and the text, by the
/// handler.
package enum CrashReport {
    private enum Noted: Int { case seed, step, isFinding }

    private static let signals = [SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV]
    private static let textSize = 256
    // Unsafe: a handler must read them without a lock.
    nonisolated(unsafe) private static let noted = {
        let noted = UnsafeMutablePointer<UInt64>.allocate(capacity: 3)
        noted.initialize(repeating: 0, count: 3)
        return noted
    }()
    nonisolated(unsafe) private static let text = UnsafeMutablePointer<UInt8>.allocate(
        capacity: textSize
    )

    /// Starts reporting crashes of this process.
    ///
    /// - Parameter isFinding: Whether a crash is the expected result because a fault is planted:
    ///   then the process exits with 0. Otherwise the signal ends it, as without a report.
    package static func begin(isFinding: Bool) {
        noted[Noted.isFinding.rawValue] = isFinding ? 1 : 0
        text.initialize(repeating: 0, count: textSize)
        for number in signals { _ = signal(number) { CrashReport.report($0) } }
    }

    /// Records the current seed and step.
    package static func note(seed: UInt64, step: Int) {
        noted[Noted.seed.rawValue] = seed
        noted[Noted.step.rawValue] = UInt64(step)
    }

    private static func report(_ number: Int32) {
        let seed = noted[Noted.seed.rawValue]
        var end = 0
        append("seed ", at: &end)
        append(seed, at: &end)
        append(", step ", at: &end)
        append(noted[Noted.step.rawValue], at: &end)
        append(": the process crashed with signal ", at: &end)
        append(UInt64(number), at: &end)
        append("\n", at: &end)
        _ = write(STDOUT_FILENO, text, end)
        if noted[Noted.isFinding.rawValue] == 1 { _exit(0) }
        // The instruction is repeated and ends the process.
        _ = signal(number, SIG_DFL)
    }

    private static func append(_ words: StaticString, at end: inout Int) {
        let count = min(words.utf8CodeUnitCount, textSize - end)
        for place in 0..<count { text[end + place] = words.utf8Start[place] }
        end += count
    }

    private static func append(_ number: UInt64, at end: inout Int) {
        var power: UInt64 = 1
        while number / power >= 10 { power *= 10 }
        while power > 0, end < textSize {
            text[end] = UInt8(truncatingIfNeeded: 48 + number / power % 10)
            end += 1
            power /= 10
        }
    }
}
