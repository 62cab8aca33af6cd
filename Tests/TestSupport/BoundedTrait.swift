import Foundation
import SanguineTesting
import Synchronization
package import Testing

/// Gives each test its turn, and so much time once it has it.
///
/// Tests run a few at a time: hundreds at once starve each other on a small machine, and then no
/// bound in seconds holds. A test whose time is up fails and is cancelled; the rest goes on. Of
/// several bounds the innermost counts: a suite in a suite may need more time than the others, or
/// less.
package struct BoundedTrait: SuiteTrait, TestTrait, TestScoping {
    let bound: Duration

    package var isRecursive: Bool { true }

    /// The bound of the test that runs.
    package static var present: Duration? { Watch.present?.bound }

    package func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        // The suite around this one has given the turn already.
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
    /// Bounds each test of a suite by 30 seconds of real time.
    package static var bounded: Self { .bounded(.seconds(30)) }

    /// Bounds each test of a suite that has much to do.
    package static func bounded(_ bound: Duration) -> Self { BoundedTrait(bound: bound) }
}

/// How many tests may run at once: twice as many as there are cores.
///
/// Mutable state: `waiting` and `free`, by the lock of `state`.
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

/// Fails and cancels a test when its time is up.
///
/// Mutable state: `state`, by its mutex; the task is `nil` once the test has ended.
private final class Watch: Sendable {
    // Any task may cancel another one; the mutex sees to it that it still runs.
    private struct State: @unchecked Sendable {
        var task: UnsafeCurrentTask?
        var bound: Duration?
        var timer: Task<Void, Never>?
    }

    /// That of the test that runs.
    @TaskLocal static var present: Watch?

    private let location: SourceLocation
    private let state: Mutex<State>

    init(_ test: Test) {
        location = test.sourceLocation
        state = Mutex(State(task: withUnsafeCurrentTask { $0 }))
    }

    /// How long the test has, from the last ``begin(_:)`` on.
    var bound: Duration? { state.withLock { $0.bound } }

    /// Lets the time run from now on; what was before counts no more.
    func begin(_ bound: Duration) {
        let timer = Task { [weak self] in
            var patience = Patience(bound, isPolling: false)
            while (try? await patience.rest()) == true {}
            guard !Task.isCancelled, let self else { return }
            Issue.record(
                "The test had \(bound), and is cancelled. What it waits for never came.",
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
