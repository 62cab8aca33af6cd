import Foundation

/// A wait that timed out; the error states what was awaited, for how long, and where.
///
/// ```text
/// AppTests/ProfileTests.swift:20: Waited 10.0 seconds in vain for 2 held answers; 1 is held.
/// ```
public struct WaitTimeout: Error, Hashable, CustomStringConvertible {
    /// A description of what the wait was for.
    public let awaited: String
    /// A description of the state at the timeout; empty if there is nothing to say about it.
    public let found: String
    /// The duration of the wait.
    public let bound: Duration
    /// The file of the call that waited, with its module.
    public let fileID: String
    /// The line of the call that waited.
    public let line: Int

    init(_ awaited: String, found: String = "", _ bound: Duration, _ fileID: String, _ line: Int) {
        self.awaited = awaited
        self.found = found
        self.bound = bound
        self.fileID = fileID
        self.line = line
    }

    /// The error as one sentence.
    public var description: String {
        let rest = found.isEmpty ? "" : "; \(found)"
        return "\(fileID):\(line): Waited \(bound) in vain for \(awaited)\(rest)."
    }
}

/// The remaining time of a wait, in pauses.
///
/// It is measured in real time, but a pause counts at most four times its intended duration, so
/// that a wait that is about to succeed does not fail on a machine that gives the process no time.
package struct Patience {
    /// The factor by which all waits are extended; see ``TestingLimits/wait``.
    private static let factor =
        ProcessInfo.processInfo.environment["SANGUINE_TEST_PATIENCE"]
        .flatMap { Int($0) }.map { max(1, $0) } ?? 1

    private let longestPause: Duration
    private var left: Duration
    private var pause: Duration

    /// Creates the time for one wait.
    ///
    /// - Parameters:
    ///   - bound: The duration of the wait.
    ///   - isPolling: Whether a condition is checked after each pause; the pauses are then short,
    ///     and the first ones are the shortest.
    package init(_ bound: Duration, isPolling: Bool) {
        left = bound * Self.factor
        longestPause = .milliseconds(isPolling ? 10 : 50)
        pause = isPolling ? .milliseconds(1) : longestPause
    }

    /// Pauses, unless the time is up.
    ///
    /// - Returns: Whether there was time left for the pause.
    /// - Throws: `CancellationError` if the task is cancelled.
    package mutating func rest() async throws -> Bool {
        guard left > .zero else { return false }
        let clock = ContinuousClock()
        let start = clock.now
        try await clock.sleep(for: pause)
        left -= min(clock.now - start, pause * 4)
        pause = min(pause * 2, longestPause)
        return true
    }
}
