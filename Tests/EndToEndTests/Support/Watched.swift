import SanguineTesting

/// A value whose changes a test waits for.
typealias Watched = WatchedState

// Processes and servers take their time on a machine that has other things to do.
extension WatchedState {
    /// Changes the value and tells whoever waits.
    @discardableResult
    func update<Outcome: Sendable>(_ change: (inout State) -> Outcome) -> Outcome {
        withLock { change(&$0) }
    }

    /// Returns what is found in the value, now or after a change.
    func first<Found: Sendable>(
        _ awaited: String = "what a server or a process is to do",
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
        _ awaited: String = "what a server or a process is to do",
        fileID: String = #fileID,
        line: Int = #line,
        _ condition: @escaping @Sendable (State) -> Bool
    ) async throws {
        try await wait(
            for: awaited,
            within: TestingLimits.longestWait,
            found: { "there is \("\($0)".prefix(400))" },
            fileID: fileID,
            line: line,
            until: condition
        )
    }
}

/// What a script waits for until the test lets it go on.
struct Gate: Sendable {
    private let opened = Watched<Set<String>>([])

    /// Lets those who wait for the name go on, now and later.
    func open(_ name: String = "") { opened.update { _ = $0.insert(name) } }

    /// Waits for the name, for 30 seconds at most; returns early if the waiting task is cancelled.
    func wait(for name: String = "") async {
        try? await opened.when("the gate '\(name)'") { $0.contains(name) }
    }
}
