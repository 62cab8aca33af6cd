public import Sanguine

extension SanguineClient {
    /// Returns when the client is idle: no fetch, no operation being sent, no pull of the feed, no
    /// value waiting to be written, and no notification waiting for observers.
    ///
    /// ```swift
    /// try client.perform(Like(track: "1"))
    /// try await client.waitUntilIdle()
    /// #expect(client.outbox.summary.unsent == 0)
    /// ```
    ///
    /// Work that waits for a clock does not count; move the clock for it. Live connections, and
    /// calls that the test itself awaits, do not count either.
    ///
    /// - Parameters:
    ///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    /// - Throws: ``WaitTimeout``, which names the remaining work, after the bound;
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
            // One piece of work may start another, with a moment between them.
            if looks == 3 { return }
            guard try await patience.rest() else {
                let found = work.isEmpty ? "" : "still running: \(work.joined(separator: ", "))"
                throw WaitTimeout("the client to be idle", found: found, bound, fileID, line)
            }
        }
    }
}
