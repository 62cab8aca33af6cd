/// Returns when the condition holds.
///
/// It is evaluated repeatedly, with pauses.
///
/// Use it for changes that cause no event. Otherwise wait for the event:
/// ``ScriptedTransport/waitForRequests(_:fileID:line:)``, ``WatchedState``.
///
/// ```swift
/// try await eventually("the outbox is empty") { client.outbox.summary.unsent == 0 }
/// ```
///
/// - Parameters:
///   - awaited: The awaited condition, for the error: "the outbox is empty".
///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
///   - fileID: The file that the error names.
///   - line: The line that the error names.
///   - isolation: The isolation of the condition. Default: the caller's.
///   - condition: The condition to wait for.
/// - Throws: ``WaitTimeout`` after the bound, `CancellationError` when the task is cancelled, and
///   the condition's error.
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
        guard try await patience.rest() else { throw WaitTimeout(awaited, bound, fileID, line) }
    }
}

/// Runs the body with a time limit.
///
/// ```swift
/// let profile = try await within(.seconds(5), "the profile") {
///     try await client.value(of: .profile("42"))
/// }
/// ```
///
/// - Parameters:
///   - bound: The time limit, at most ``TestingLimits/longestWait``. After it the body is
///     cancelled.
///   - awaited: The awaited result, for the error.
///   - fileID: The file that the error names.
///   - line: The line that the error names.
///   - body: The code to run, in a separate task.
/// - Returns: The body's result.
/// - Throws: ``WaitTimeout`` after the bound, even if the body ignores its cancellation;
///   `CancellationError` when the task is cancelled; and the body's error.
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
    /// Returns the first element that fits.
    ///
    /// ```swift
    /// let ada = try await client.updates(of: .profile("42")).first("Ada") {
    ///     $0.value?.name == "Ada"
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - awaited: The awaited element, for the error.
    ///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    ///   - fits: Whether an element fits. Default: all do.
    /// - Returns: The first element that fits.
    /// - Throws: ``WaitTimeout`` after the bound or the end of the sequence, `CancellationError`
    ///   when the task is cancelled, and the sequence's error.
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
            throw WaitTimeout(awaited, found: "the sequence has ended", bound, fileID, line)
        }
        return found
    }
}

extension Task {
    /// Waits for the task's end.
    ///
    /// Unlike `value`, it waits for a limited time, and ends when the waiting task is cancelled. In
    /// both cases it cancels the task.
    ///
    /// ```swift
    /// let caller = Task { try await client.value(of: .profile("42")) }
    /// …
    /// #expect(try await caller.finished().name == "Ada")
    /// ```
    ///
    /// - Parameters:
    ///   - awaited: The awaited event, for the error.
    ///   - bound: The longest time to wait, at most ``TestingLimits/longestWait``.
    ///   - fileID: The file that the error names.
    ///   - line: The line that the error names.
    /// - Returns: The task's result.
    /// - Throws: ``WaitTimeout`` after the bound, `CancellationError` when the waiting task is
    ///   cancelled, and the task's error.
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
        guard let result = end.value else { preconditionFailure("The result is missing.") }
        return try result.get()
    }
}
