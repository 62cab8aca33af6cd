package import SanguineTesting

extension WatchedState {
    /// Waits until a count has reached its goal, and gives up only if the count stops changing.
    ///
    /// Use it for many consecutive operations: on a busy machine, a limit for all of them
    /// together would measure the machine.
    ///
    /// - Parameters:
    ///   - goal: The count to reach.
    ///   - things: The counted things, for the error: "calls at the upstream".
    ///   - idle: How long the count may remain the same, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - count: Returns the count. It is called with the lock held, after each change.
    /// - Throws: ``WaitTimeout``, in one line, if the count remains the same for that long;
    ///   `CancellationError` if the task is cancelled.
    package func reach(
        _ goal: Int,
        _ things: String,
        idle: Duration = TestingLimits.longestWait,
        fileID: String = #fileID,
        line: Int = #line,
        count: @escaping @Sendable (State) -> Int
    ) async throws {
        var reached = count(value)
        while reached < goal {
            let before = reached
            try await wait(
                for: "one more of \(goal) \(things)",
                within: idle,
                found: { "there are \(count($0))" },
                fileID: fileID,
                line: line
            ) { count($0) > before }
            reached = count(value)
        }
    }
}
