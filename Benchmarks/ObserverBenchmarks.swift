import Foundation
import Observation
import Sanguine
import Synchronization

/// The cost of notifying a thousand observers of one change.
///
/// Closures are compared with a peer's callbacks, and tasks and views with the parts of Swift that
/// wake them.
enum ObserverBenchmarks {
    typealias Profile = QueryBenchmarks.Profile

    private static let count = 1_000
    private static let rounds = QueryBenchmarks.rounds
    private static let clock = QueryBenchmarks.clock

    // MARK: - Closures

    static func observers() throws -> Figure {
        let client = try QueryBenchmarks.client()
        let query = QueryBenchmarks.query(1)
        client.set(Profile(followers: 0), for: query)
        let seen = Counter()
        let followings = (0..<count).map { _ in client.observe(query) { _ in _ = seen.add() } }
        let before = seen.value
        let samples = (1...rounds).map { number in
            clock.measure { client.set(Profile(followers: number), for: query) }
        }
        // Another thread may be notifying, for instance of a value's size, and notifies of the last
        // change too.
        let deadline = clock.now + .seconds(5)
        while seen.value < before + rounds * followings.count, clock.now < deadline {
            Thread.sleep(forTimeInterval: 0.001)
        }
        guard seen.value == before + rounds * followings.count else {
            throw BenchmarkError.wrong("observe")
        }
        client.close()
        return QueryBenchmarks.cost("one write to 1,000 observers", samples, peer: 1_500)
    }

    // MARK: - Tasks

    /// A change wakes a thousand tasks, so the baseline is waking them with nothing else.
    static func readers() async throws -> Figure {
        let client = try QueryBenchmarks.client()
        let query = QueryBenchmarks.query(1)
        client.set(Profile(followers: 0), for: query)
        let ours = Readers((0..<count).map { _ in client.updates(of: query) })
        await ours.progress.next()
        let bare = (0..<count).map { _ in
            AsyncStream.makeStream(
                of: ValueSnapshot<Profile>.self,
                bufferingPolicy: .bufferingNewest(1)
            )
        }
        let base = Readers(bare.map(\.stream))
        var samples: (ours: [Duration], base: [Duration]) = ([], [])
        for number in 1...rounds {
            var start = clock.now
            client.set(Profile(followers: number), for: query)
            await ours.progress.next()
            samples.ours.append(start.duration(to: clock.now))
            let state = ValueSnapshot(value: Profile(followers: number))
            start = clock.now
            for (_, continuation) in bare { continuation.yield(state) }
            await base.progress.next()
            samples.base.append(start.duration(to: clock.now))
        }
        ours.cancel()
        base.cancel()
        client.close()
        return Figure(
            cost: "one write to 1,000 readers of updates",
            samples.ours.map { $0 / .microseconds(1) }.median,
            unit: "µs",
            of: "a bare AsyncStream for each",
            samples.base.map { $0 / .microseconds(1) }.median,
            atMost: 1.5
        )
    }

    /// Tasks that read one stream each, and advance together once all of them have read an element.
    private struct Readers {
        let progress = Progress()
        private let tasks: [Task<Void, Never>]

        init(_ streams: [AsyncStream<ValueSnapshot<Profile>>]) {
            let seen = Counter()
            let progress = progress
            tasks = streams.map { stream in
                Task.detached {
                    for await _ in stream where seen.add() % streams.count == 0 {
                        progress.step()
                    }
                }
            }
        }

        func cancel() { for task in tasks { task.cancel() } }
    }

    // MARK: - Views

    @MainActor
    @Observable
    final class Bare {
        var value: Profile?
    }

    /// A thousand views of one query share a model.
    ///
    /// The baseline is the cost of Observation itself.
    @MainActor
    static func views() async throws -> Figure {
        let client = try QueryBenchmarks.client()
        let query = QueryBenchmarks.query(1)
        client.set(Profile(followers: 0), for: query)
        let models = (0..<count).map { _ in client.model(query) }
        let bare = Bare()
        var samples: (ours: [Duration], base: [Duration]) = ([], [])
        for number in 1...rounds {
            var seen = Counter()
            for model in models { follow(seen) { _ = model.value } }
            var start = clock.now
            client.set(Profile(followers: number), for: query)
            while seen.value < count { await Task.yield() }
            samples.ours.append(start.duration(to: clock.now))
            seen = Counter()
            for _ in 0..<count { follow(seen) { _ = bare.value } }
            start = clock.now
            bare.value = Profile(followers: number)
            samples.base.append(start.duration(to: clock.now))
            guard seen.value == count else { throw BenchmarkError.wrong("Observation") }
        }
        guard models.last?.value?.followers == rounds else { throw BenchmarkError.wrong("model") }
        client.close()
        return Figure(
            cost: "one write to 1,000 observing views",
            samples.ours.map { $0 / .microseconds(1) }.median,
            unit: "µs",
            of: "a bare @Observable object",
            samples.base.map { $0 / .microseconds(1) }.median,
            atMost: 1.5
        )
    }

    @MainActor
    private static func follow(_ seen: Counter, _ read: () -> Void) {
        withObservationTracking {
            read()
        } onChange: {
            _ = seen.add()
        }
    }
}
