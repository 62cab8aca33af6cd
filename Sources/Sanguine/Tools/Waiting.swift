/// Waits until somebody answers, or until the caller's task is cancelled.
///
/// The one way in which a caller waits: who joins and is cancelled leaves, whatever comes first.
///
/// - Parameters:
///   - join: Hands the continuation to whoever answers it. Called once, before this suspends.
///   - leave: The task was cancelled: the continuation is to be answered now, unless it was. Called
///     on any thread, and more than once if the task was cancelled while it joined.
/// - Returns: The answer.
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
