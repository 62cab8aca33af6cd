import Foundation

/// Performs long work on a separate thread, so that it does not block the threads of tasks.
enum DedicatedThread {
    /// Performs the body on a new thread.
    ///
    /// - Parameters:
    ///   - body: The work.
    ///   - onCancel: Called when the calling task is cancelled, to end the work early.
    /// - Returns: The body's result.
    /// - Throws: The body's error.
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
