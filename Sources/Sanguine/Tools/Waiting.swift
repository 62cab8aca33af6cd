/// Waits until the continuation is resumed, or until the caller's task is cancelled.
///
/// All callers wait with this function: a cancelled caller stops waiting, even if it is cancelled
/// before it joins.
///
/// - Parameters:
///   - join: Stores the continuation for the code that resumes it. Called once, before this
///     suspends.
///   - leave: Called when the task is cancelled: resumes the continuation now, unless it was
///     resumed. Called on any thread, and more than once if the task was cancelled while it joined.
/// - Returns: The value that the continuation was resumed with.
nonisolated(nonsending) func withWaiter<Answer: Sendable>(
    _ join: (CheckedContinuation<Answer, Never>) -> Void,
    leave: @Sendable () -> Void
) async -> Answer {
    await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            join(continuation)
            // The handler below has run already if the task was cancelled before it joined.
            if Task.isCancelled { leave() }
        }
    } onCancel: {
        leave()
    }
}

/// Gives other tasks a turn between two steps of long work.
///
/// `Task.yield()` is not used, because the runtime does not pass it to the hook by which a
/// simulation orders the jobs of real clients, so that a seed would no longer decide the order.
nonisolated(nonsending) func giveTurn() async { await Task.detached {}.value }
