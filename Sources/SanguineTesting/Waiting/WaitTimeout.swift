import Foundation

/// A wait that was in vain: the error says what was waited for, for how long, and where.
///
/// ```text
/// AppTests/ProfileTests.swift:20: Waited 10.0 seconds in vain for 2 held answers; 1 is held.
/// ```
public struct WaitTimeout: Error, Hashable, CustomStringConvertible {
    /// What was waited for.
    public let awaited: String
    /// What was there instead; empty if that says nothing.
    public let found: String
    /// How long was waited.
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

    /// All of it, as a sentence.
    public var description: String {
        let rest = found.isEmpty ? "" : "; \(found)"
        return "\(fileID):\(line): Waited \(bound) in vain for \(awaited)\(rest)."
    }
}

/// How long a wait goes on, in pauses.
///
/// Real time, but a pause counts at most four times what it was to take: on a machine that gives
/// the process no time, a wait that is about to succeed does not fail.
package struct Patience {
    /// How many times longer all waits go on than they say; see ``TestingLimits/wait``.
    private static let factor =
        ProcessInfo.processInfo.environment["SANGUINE_TEST_PATIENCE"]
        .flatMap { Int($0) }.map { max(1, $0) } ?? 1

    private let longestPause: Duration
    private var left: Duration
    private var pause: Duration

    /// Creates patience.
    ///
    /// - Parameters:
    ///   - bound: How long.
    ///   - isPolling: Whether there is a look at something after each pause: pauses are short then,
    ///     and the first ones shortest.
    package init(_ bound: Duration, isPolling: Bool) {
        left = bound * Self.factor
        longestPause = .milliseconds(isPolling ? 10 : 50)
        pause = isPolling ? .milliseconds(1) : longestPause
    }

    /// Pauses, unless the time is up.
    ///
    /// - Returns: Whether there was time for the pause.
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
