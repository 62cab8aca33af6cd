import Sanguine
import Synchronization

/// The cost of many callers of one key, from their first call to the last answer.
///
/// It is compared with a peer's figure, and with the minimum: as many tasks that only wait to be
/// resumed.
enum CallerBenchmarks {
    private static let clock = QueryBenchmarks.clock

    static func run() async throws -> [Figure] {
        var ours: [Int: [Duration]] = [:]
        var floor: [Duration] = []
        for _ in 0..<QueryBenchmarks.rounds {
            for callers in [100, 10_000] {
                ours[callers, default: []].append(try await call(callers))
            }
            floor.append(await suspend(10_000))
        }
        let many = ours[10_000] ?? []
        return [
            QueryBenchmarks.cost("100 callers of one key, 1 call", ours[100] ?? [], peer: 680),
            Figure(
                cost: "10,000 callers of one key, 1 call",
                many.map { $0 / .microseconds(1) }.median,
                unit: "µs",
                of: "100 times the time of 100 callers",
                100 * (ours[100] ?? []).map { $0 / .microseconds(1) }.median,
                atMost: 1
            ),
            Figure(
                cost: "10,000 callers of one key, against bare tasks",
                many.map { $0 / .microseconds(1) }.median,
                unit: "µs",
                of: "a task with a continuation each",
                floor.map { $0 / .microseconds(1) }.median,
                atMost: nil
            ),
        ]
    }

    private static func call(_ callers: Int) async throws -> Duration {
        let network = Gate()
        let client = try QueryBenchmarks.client(network)
        let query = QueryBenchmarks.query(1)
        let answered = Counter()
        let progress = Progress()
        let start = clock.now
        // Detached tasks, because a group takes longer to remove its children the more there are.
        for _ in 0..<callers {
            Task.detached {
                guard try await client.value(of: query).followers == 1 else { return }
                if answered.add() == callers { progress.step() }
            }
        }
        network.open()
        await progress.next()
        let time = start.duration(to: clock.now)
        guard network.calls == 1 else { throw BenchmarkError.wrong("flight") }
        client.close()
        return time
    }

    /// Continuations that wait for each other.
    private final class Crowd: Sendable {
        private let waiting = Mutex<[CheckedContinuation<Int, Never>]>([])

        /// Adds a continuation and returns the number of waiting ones.
        func add(_ continuation: CheckedContinuation<Int, Never>) -> Int {
            waiting.withLock { waiting in
                waiting.append(continuation)
                return waiting.count
            }
        }

        func resume() {
            for continuation in waiting.withLock({ $0 }) { continuation.resume(returning: 1) }
        }
    }

    /// Suspends tasks on a continuation each, and resumes them together once all are suspended.
    private static func suspend(_ count: Int) async -> Duration {
        let crowd = Crowd()
        let answered = Counter()
        let arrived = Progress()
        let progress = Progress()
        let start = clock.now
        for _ in 0..<count {
            Task.detached {
                let answer = await withCheckedContinuation { continuation in
                    if crowd.add(continuation) == count { arrived.step() }
                }
                if answer == 1, answered.add() == count { progress.step() }
            }
        }
        await arrived.next()
        crowd.resume()
        await progress.next()
        return start.duration(to: clock.now)
    }
}

/// A network that responds once it is opened.
private final class Gate: HTTPTransport {
    private struct State {
        var calls = 0
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    var calls: Int { state.withLock { $0.calls } }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for caller in waiting { caller.resume() }
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                state.calls += 1
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
        return Answers.one
    }
}
