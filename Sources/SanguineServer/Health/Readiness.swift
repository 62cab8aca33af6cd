import SanguineAuthority
import SanguineModel
import Synchronization

/// Checks whether the server is ready: reads from the storage and commits an empty change.
///
/// Mutable state: `shared`, guarded by its mutex. The number of waiting callers is bounded by the
/// number of connections.
final class Readiness: Sendable {
    private struct Shared {
        var state = ReadinessState()
        var waiting: [CheckedContinuation<NotReady?, Never>] = []
    }

    private let shared = Mutex(Shared())
    private let delay: any Clock<Duration>
    private let elapsed: @Sendable () -> Duration

    /// Creates an instance without a result.
    ///
    /// - Parameter delay: The clock for the timeout of a probe and the interval between probes.
    init(delay: any Clock<Duration>) {
        self.delay = delay
        elapsed = Self.stopwatch(delay)
    }

    /// Records that a storage call failed.
    ///
    /// - Returns: Whether the failure should be logged.
    func saw(_ error: StorageError) -> Bool { shared.withLock { $0.state.saw(error) } }

    /// Whether stored data was found to be damaged.
    var isDamaged: Bool { shared.withLock { $0.state.isDamaged } }

    /// Returns the reason why the server is not ready, or `nil`, within
    /// ``ReadinessState/patience``.
    func check(_ storage: any Storage) async -> NotReady? {
        await withCheckedContinuation { caller in
            let step = shared.withLock { shared in
                let step = shared.state.asked(at: elapsed())
                if case .answer = step { return step }
                shared.waiting.append(caller)
                return step
            }
            switch step {
            case .answer(let found): caller.resume(returning: found)
            case .probe: begin(storage)
            case .wait: break
            }
        }
    }

    private func begin(_ storage: any Storage) {
        let timer = Task {
            guard (try? await delay.sleep(for: ReadinessState.patience)) != nil else { return }
            answer { state in
                state.ranOutOfPatience()
                return .stalled
            }
        }
        Task {
            let found = await Self.fault(of: storage)
            timer.cancel()
            answer { $0.tried(found, at: elapsed()) }
        }
    }

    private func answer(_ change: (inout ReadinessState) -> NotReady?) {
        let (found, waiting) = shared.withLock { shared in
            defer { shared.waiting = [] }
            return (change(&shared.state), shared.waiting)
        }
        for caller in waiting { caller.resume(returning: found) }
    }

    private static func fault(of storage: any Storage) async -> NotReady? {
        do throws(StorageError) {
            _ = try await storage.load([.device("")])
            try await storage.checkHealth()
            return nil
        } catch {
            return NotReady(error)
        }
    }

    private static func stopwatch(_ clock: some Clock<Duration>) -> @Sendable () -> Duration {
        let start = clock.now
        return { start.duration(to: clock.now) }
    }
}
