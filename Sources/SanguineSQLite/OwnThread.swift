import Foundation

/// Does long work on a thread of its own, so that it takes none from the tasks.
enum OwnThread {
    /// Performs the body on a new thread.
    ///
    /// - Parameters:
    ///   - body: The work.
    ///   - onCancel: Called when the calling task is cancelled, to let the work end early.
    /// - Returns: What the body returns.
    /// - Throws: What the body throws.
    static func run<Value: Sendable, Failure: Error>(
        _ body: @escaping @Sendable () throws(Failure) -> Value,
        onCancel: @escaping @Sendable () -> Void
    ) async throws(Failure) -> Value {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation {
                (caller: CheckedContinuation<Result<Value, Failure>, Never>) in
                Thread.detachNewThread { caller.resume(returning: Result(catching: body)) }
            }
        } onCancel: {
            onCancel()
        }
        return try result.get()
    }
}
