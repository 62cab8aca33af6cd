/// Returns when the condition holds; it is asked again and again, in pauses.
///
/// For what tells nobody that it has changed. Where there is an event, wait for that:
/// ``ScriptedTransport/waitForRequests(_:fileID:line:)``, ``WatchedState``.
///
/// ```swift
/// try await eventually("the outbox is empty") { client.outbox.summary.unsent == 0 }
/// ```
///
/// - Parameters:
///   - awaited: What is waited for, for the error: "the outbox is empty".
///   - bound: How long, at most ``TestingLimits/longestWait``.
///   - fileID: The file that the error names.
///   - line: The line that the error names.
///   - isolation: Where the condition is asked. Default: where the caller runs.
///   - condition: What must hold.
/// - Throws: ``VainWait`` when the time is up, `CancellationError` when the task is cancelled, and
///   what the condition throws.
public func eventually(
    _ awaited: String,
    within bound: Duration = TestingLimits.wait,
    fileID: String = #fileID,
    line: Int = #line,
    isolation: isolated (any Actor)? = #isolation,
    _ condition: () async throws -> Bool
) async throws {
    var patience = Patience(min(bound, TestingLimits.longestWait), isPolling: true)
    while try await !condition() {
        guard try await patience.rest() else { throw VainWait(awaited, bound, fileID, line) }
    }
}

/// Runs the body, for so long at most.
///
/// ```swift
/// let profile = try await within(.seconds(5), "the profile") {
///     try await client.value(of: .profile("42"))
/// }
/// ```
///
/// - Parameters:
///   - bound: How long, at most ``TestingLimits/longestWait``. After it the body is cancelled.
///   - awaited: What is waited for, for the error.
///   - fileID: The file that the error names.
///   - line: The line that the error names.
///   - body: What runs, in a task of its own.
/// - Returns: What the body returns.
/// - Throws: ``VainWait`` when the time is up, also if the body does not heed its cancellation;
///   `CancellationError` when the task is cancelled; and what the body throws.
public func within<Value: Sendable>(
    _ bound: Duration,
    _ awaited: String,
    fileID: String = #fileID,
    line: Int = #line,
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    try await Task { try await body() }
        .finished(awaited, within: bound, fileID: fileID, line: line)
}

extension AsyncSequence where Self: Sendable, Element: Sendable {
    /// Returns the first element that fits, as soon as the sequence brings it.
    ///
    /// ```swift
    /// let ada = try await client.updates(of: .profile("42")).first("Ada") {
    ///     $0.value?.name == "Ada"
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - awaited: What is waited for, for the error.
    ///   - bound: How long, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - fits: Which element. Default: any.
    /// - Returns: That element.
    /// - Throws: ``VainWait`` when the time is up or the sequence has ended, `CancellationError`
    ///   when the task is cancelled, and what the sequence throws.
    @discardableResult
    public func first(
        _ awaited: String,
        within bound: Duration = TestingLimits.wait,
        fileID: String = #fileID,
        line: Int = #line,
        where fits: @escaping @Sendable (Element) -> Bool = { _ in true }
    ) async throws -> Element {
        let reading = Task { () throws -> Element? in
            for try await element in self where fits(element) { return element }
            return nil
        }
        let found = try await reading.finished(
            awaited,
            within: bound,
            fileID: fileID,
            line: line
        )
        guard let found else {
            throw VainWait(awaited, found: "the sequence has ended", bound, fileID, line)
        }
        return found
    }
}

extension Task {
    /// Waits for the task's end.
    ///
    /// Unlike `value` it waits for so long at most, and ends when the waiting task is cancelled.
    /// The task is cancelled then, too.
    ///
    /// ```swift
    /// let caller = Task { try await client.value(of: .profile("42")) }
    /// …
    /// #expect(try await caller.finished().name == "Ada")
    /// ```
    ///
    /// - Parameters:
    ///   - awaited: What is waited for, for the error.
    ///   - bound: How long, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    /// - Returns: What the task returns.
    /// - Throws: ``VainWait`` when the time is up, `CancellationError` when the waiting task is
    ///   cancelled, and what the task throws.
    @discardableResult
    public func finished(
        _ awaited: String = "the end of a task",
        within bound: Duration = TestingLimits.wait,
        fileID: String = #fileID,
        line: Int = #line
    ) async throws -> Success {
        let end = WatchedState<Result<Success, Failure>?>(nil)
        Task<Void, Never> {
            let result = await result
            end.withLock { $0 = result }
        }
        do {
            try await end.wait(for: awaited, within: bound, fileID: fileID, line: line) {
                $0 != nil
            }
        } catch {
            cancel()
            throw error
        }
        guard let result = end.value else { preconditionFailure("It was there.") }
        return try result.get()
    }
}
