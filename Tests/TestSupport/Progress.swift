package import SanguineTesting

extension WatchedState {
    /// Returns when a count has reached its goal; gives up only when it stands still.
    ///
    /// For many things that a busy machine does one after the other: a bound on all of them would
    /// measure the machine.
    ///
    /// - Parameters:
    ///   - goal: The count to reach.
    ///   - things: What is counted, for the error: "calls at the upstream".
    ///   - idle: How long the count may stand still, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - count: Counts. It is called under the lock, after each change.
    /// - Throws: ``VainWait``, in one line, when the count has stood still for so long;
    ///   `CancellationError` when the task is cancelled.
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
