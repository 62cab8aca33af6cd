public import Sanguine

extension SanguineClient {
    /// Returns when nothing is under way: no fetch, no operation on its way, no pull of the feed,
    /// no value that is still to be written, and no news that observers were not told.
    ///
    /// ```swift
    /// try client.perform(Like(track: "1"))
    /// try await client.waitUntilIdle()
    /// #expect(client.outbox.summary.unsent == 0)
    /// ```
    ///
    /// What waits for a clock is not under way: move the clock for it. A live connection is not
    /// either, nor a call that the test itself awaits.
    ///
    /// - Parameters:
    ///   - bound: How long, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    /// - Throws: ``VainWait``, which names what is under way, when the time is up;
    ///   `CancellationError` when the task is cancelled.
    public func waitUntilIdle(
        within bound: Duration = TestingLimits.wait,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws {
        let bound = min(bound, TestingLimits.longestWait)
        var patience = Patience(bound, isPolling: true)
        var looks = 0
        while true {
            let work = underWay
            looks = work.isEmpty ? looks + 1 : 0
            // One thing leads to another: between two there may be none for a moment.
            if looks == 3 { return }
            guard try await patience.rest() else {
                let found = work.isEmpty ? "" : "under way: \(work.joined(separator: ", "))"
                throw VainWait("nothing to be under way", found: found, bound, fileID, line)
            }
        }
    }
}
