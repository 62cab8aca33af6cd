import Synchronization

/// A value whose changes a test waits for, instead of sleeping.
///
/// Mutable state: `state`, guarded by its mutex; watchers are told outside of it.
final class Watched<Value: Sendable>: Sendable {
    private struct State {
        var value: Value
        var watchers: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastNumber = 0
    }

    private let state: Mutex<State>

    init(_ value: Value) { state = Mutex(State(value: value)) }

    var value: Value { state.withLock { $0.value } }

    /// Changes the value and tells whoever waits.
    @discardableResult
    func update<Outcome: Sendable>(_ change: (inout Value) -> Outcome) -> Outcome {
        let (outcome, watchers) = state.withLock { state in
            let outcome = change(&state.value)
            return (outcome, Array(state.watchers.values))
        }
        for watcher in watchers { watcher.yield() }
        return outcome
    }

    /// Returns what is found in the value, now or after a change.
    ///
    /// - Throws: `CancellationError` when the test's time is up.
    func first<Found: Sendable>(_ find: (Value) throws -> Found?) async throws -> Found {
        let (changes, change) = AsyncStream.makeStream(
            of: Void.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let number = state.withLock { state in
            state.lastNumber += 1
            state.watchers[state.lastNumber] = change
            return state.lastNumber
        }
        defer { state.withLock { _ = $0.watchers.removeValue(forKey: number) } }
        change.yield()
        for await _ in changes {
            if let found = try find(value) { return found }
        }
        throw CancellationError()
    }

    /// Returns once the condition holds.
    func when(_ condition: (Value) -> Bool) async throws {
        _ = try await first { condition($0) ? true : nil }
    }
}

/// What a script waits for until the test lets it go on.
struct Gate: Sendable {
    private let opened = Watched<Set<String>>([])

    /// Lets those who wait for the name go on, now and later.
    func open(_ name: String = "") { opened.update { _ = $0.insert(name) } }

    /// Waits for the name; returns early if the waiting task is cancelled.
    func wait(for name: String = "") async {
        try? await opened.when { $0.contains(name) }
    }
}
