import SanguineTesting

/// A value whose changes a test awaits.
typealias Watched = WatchedState

// Longer waits, because processes and servers are slow on a busy machine.
extension WatchedState {
    /// Changes the value and wakes the waiting tasks.
    @discardableResult
    func update<Outcome: Sendable>(_ change: (inout State) -> Outcome) -> Outcome {
        withLock { change(&$0) }
    }

    /// Waits until the closure finds a result in the value, and returns the result.
    func first<Found: Sendable>(
        _ awaited: String = "an event of a server or a process",
        fileID: String = #fileID,
        line: Int = #line,
        _ find: @escaping @Sendable (State) throws -> Found?
    ) async throws -> Found {
        try await first(
            awaited,
            within: TestingLimits.longestWait,
            fileID: fileID,
            line: line,
            find: find
        )
    }

    /// Returns once the condition holds.
    func when(
        _ awaited: String = "an event of a server or a process",
        fileID: String = #fileID,
        line: Int = #line,
        _ condition: @escaping @Sendable (State) -> Bool
    ) async throws {
        try await wait(
            for: awaited,
            within: TestingLimits.longestWait,
            found: { "the value is \("\($0)".prefix(400))" },
            fileID: fileID,
            line: line,
            until: condition
        )
    }
}

/// A gate that holds up a script until the test opens it.
struct Gate: Sendable {
    private let opened = Watched<Set<String>>([])

    /// Opens the gate for current and later waiters of the name.
    func open(_ name: String = "") { opened.update { _ = $0.insert(name) } }

    /// Waits for the name, for at most 30 seconds, or until the task is cancelled.
    func wait(for name: String = "") async {
        try? await opened.when("the gate '\(name)'") { $0.contains(name) }
    }
}
