import Foundation
import SanguineTesting
import Synchronization
package import Testing

/// Gives each test its turn, and so much time once it has it.
///
/// Tests run a few at a time: hundreds at once starve each other on a small machine, and then no
/// bound in seconds holds. A test whose time is up fails and is cancelled; the rest goes on.
package struct BoundedTrait: SuiteTrait, TestTrait, TestScoping {
    let bound: Duration

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        // A suite in a suite has given the turn already.
        guard testCase != nil, !Turns.isTaken else { return try await function() }
        await Turns.shared.take()
        defer { Turns.shared.giveBack() }
        try await Turns.$isTaken.withValue(true) {
            let watch = Watch(test, bound)
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
    @TaskLocal static var isTaken = false

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
/// Mutable state: `task`, by its mutex; `nil` once the test has ended.
private final class Watch: Sendable {
    // Any task may cancel another one; the mutex sees to it that it still runs.
    private struct Running: @unchecked Sendable {
        var task: UnsafeCurrentTask?
    }

    private let running: Mutex<Running>
    private let timer = Mutex<Task<Void, Never>?>(nil)

    init(_ test: Test, _ bound: Duration) {
        running = Mutex(Running(task: withUnsafeCurrentTask { $0 }))
        let location = test.sourceLocation
        let timer = Task { [weak self] in
            var patience = Patience(bound, isPolling: false)
            while (try? await patience.rest()) == true {}
            guard !Task.isCancelled, let self else { return }
            Issue.record(
                "The test had \(bound), and is cancelled. What it waits for never came.",
                sourceLocation: location
            )
            self.running.withLock { $0.task?.cancel() }
        }
        self.timer.withLock { $0 = timer }
    }

    func end() {
        running.withLock { $0.task = nil }
        timer.withLock { $0?.cancel() }
    }
}
