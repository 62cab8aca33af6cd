import UnixSignals

/// Work that SIGINT and SIGTERM cancel, so that it can clean up.
enum Interruptible {
    static func run<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        // Trap the signals before the work begins, because they would otherwise end the process.
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let task = Task { try await body() }
        let following = Task { for await _ in signals { task.cancel() } }
        defer { following.cancel() }
        return try await task.value
    }
}
