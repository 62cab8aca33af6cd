import Foundation
import SanguineTesting
import Synchronization
package import Testing

/// Limits how many tests run at once and how long each may take.
///
/// A few tests run at a time: hundreds at once would starve each other on a small machine, and then
/// no limit in seconds would hold. A test that exceeds its limit fails and is cancelled; the others
/// continue. Of several limits the innermost applies, so a nested suite can have a longer or
/// shorter one.
package struct BoundedTrait: SuiteTrait, TestTrait, TestScoping {
    let bound: Duration

    package var isRecursive: Bool { true }

    /// The limit of the running test.
    package static var present: Duration? { Watch.present?.bound }

    package func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        // The enclosing suite has already taken a turn.
        if let watch = Watch.present {
            watch.begin(bound)
            return try await function()
        }
        await Turns.shared.take()
        defer { Turns.shared.giveBack() }
        let watch = Watch(test)
        try await Watch.$present.withValue(watch) {
            watch.begin(bound)
            defer { watch.end() }
            try await function()
        }
    }
}

extension Trait where Self == BoundedTrait {
    /// Limits each test of a suite to 30 seconds of real time.
    package static var bounded: Self { .bounded(.seconds(30)) }

    /// Limits each test of a suite with long tests.
    package static func bounded(_ bound: Duration) -> Self { BoundedTrait(bound: bound) }
}

/// Limits the number of concurrent tests to twice the number of cores.
///
/// Mutable state: `waiting` and `free`, protected by the lock of `state`.
private final class Turns: Sendable {
    static let shared = Turns()

    private struct State {
        var free = 2 * ProcessInfo.processInfo.activeProcessorCount
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    func take() async {
        await withCheckedContinuation { next in  // tidy: allow unbounded-wait: others are bounded.
            let isFree = state.withLock { state in
                guard state.free > 0 else {
                    state.waiting.append(next)
                    return false
                }
                state.free -= 1
                return true
            }
            if isFree { next.resume() }
        }
    }

    func giveBack() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.resume()
    }
}

/// Fails and cancels a test when its time is over.
///
/// Mutable state: `state`, protected by a mutex; the task is `nil` once the test has ended.
private final class Watch: Sendable {
    // Any task may cancel another one; the mutex ensures that it is still running.
    private struct State: @unchecked Sendable {
        var task: UnsafeCurrentTask?
        var bound: Duration?
        var timer: Task<Void, Never>?
    }

    /// The watch of the running test.
    @TaskLocal static var present: Watch?

    private let location: SourceLocation
    private let state: Mutex<State>

    init(_ test: Test) {
        location = test.sourceLocation
        state = Mutex(State(task: withUnsafeCurrentTask { $0 }))
    }

    /// The time limit of the test, starting at the last ``begin(_:)``.
    var bound: Duration? { state.withLock { $0.bound } }

    /// Restarts the time limit.
    func begin(_ bound: Duration) {
        let timer = Task { [weak self] in
            var patience = Patience(bound, isPolling: false)
            while (try? await patience.rest()) == true {}
            guard !Task.isCancelled, let self else { return }
            Issue.record(
                "The test was cancelled because it did not end within \(bound).",
                sourceLocation: location
            )
            state.withLock { $0.task?.cancel() }
        }
        state.withLock { state in
            state.timer?.cancel()
            state.timer = timer
            state.bound = bound
        }
    }

    func end() {
        state.withLock { state in
            state.task = nil
            state.timer?.cancel()
        }
    }
}
