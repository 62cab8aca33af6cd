import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Long work on separate threads, in turns.
@Suite("Long work", .bounded)
struct LongWorkTests {
    @Test func `owners take turns, and each keeps its order`() {
        var queue = FairQueue<String, String>()
        for number in 1...4 { queue.append("a\(number)", of: "a") }
        queue.append("b1", of: "b")
        queue.append("c1", of: "c")
        queue.append("b2", of: "b")
        var order: [String] = []
        while let next = queue.popFirst() { order.append(next) }
        #expect(order == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"])
        #expect(queue.count == 0)
    }

    @Test(arguments: 1...40)
    func `each other owner is served at most once while an owner waits`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var queue = FairQueue<Int, Int>()
        var waiting: [Int: [Int]] = [:]
        /// The number of times that each other owner was served while an owner waited.
        var overtaken: [Int: [Int: Int]] = [:]
        for element in 0..<400 {
            if Int.random(in: 0..<5, using: &random) < 3 {
                let owner = Int.random(in: 0..<4, using: &random)
                queue.append(element, of: owner)
                if waiting[owner, default: []].isEmpty { overtaken[owner] = [:] }
                waiting[owner, default: []].append(element)
            } else if let next = queue.popFirst() {
                let owner = waiting.first { $0.value.first == next }?.key
                guard let owner else {
                    Issue.record("\(next) is not the first of its owner. Seed \(seed).")
                    return
                }
                waiting[owner]?.removeFirst()
                overtaken[owner] = [:]
                for other in waiting.keys where other != owner && waiting[other] != [] {
                    overtaken[other, default: [:]][owner, default: 0] += 1
                    #expect(overtaken[other]?[owner] == 1, "seed \(seed)")
                }
            }
            #expect(queue.count == waiting.values.reduce(0) { $0 + $1.count }, "seed \(seed)")
        }
    }

    @Test func `one account's work does not delay another's`() async throws {
        let work = LongWork(threads: 1)
        let busy = LongWork.Owner(Identifier(at: ManualClock.start))
        let other = LongWork.Owner(Identifier(at: ManualClock.start))
        let (started, gate) = (WatchedState(false), DispatchSemaphore(value: 0))
        let order = WatchedState<[String]>([])
        let first = Task {
            await work.perform(for: busy) {
                started.withLock { $0 = true }
                #expect(Self.wait(for: gate), "the gate was not opened in time")
            }
        }
        try await started.wait(for: "the busy thread") { $0 }
        let many = (1...20).map { number in
            Task { await work.perform(for: busy) { order.withLock { $0.append("busy") } } }
        }
        let one = Task { await work.perform(for: other) { order.withLock { $0.append("other") } } }
        try await eventually("21 pieces of work wait") { work.waiting == 21 }
        gate.signal()
        for task in [first, one] + many { try await task.finished() }
        let place = order.value.firstIndex(of: "other")
        #expect(try #require(place) <= 1)
        #expect(order.value.count == 21)
    }

    @Test func `work uses at most the given number of threads`() async throws {
        let work = LongWork(threads: 2)
        let running = WatchedState([0, 0])
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask {
                    await work.perform(
                        for: number.isMultiple(of: 2) ? .compression : .anonymous
                    ) {
                        running.withLock { running in
                            running[0] += 1
                            running[1] = max(running[0], running[1])
                        }
                        _ = (0..<1_000).reduce(0, &+)
                        running.withLock { $0[0] -= 1 }
                    }
                }
            }
        }
        #expect((1...2).contains(running.value[1]))
    }

    #if os(Linux)
    @Test func `a thread has its name in the system's tools, too`() async throws {
        let work = LongWork(threads: 1)
        let name = await work.perform(for: .anonymous) {
            try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
        }
        #expect(name == "long-work\n")
    }
    #endif

    /// Waits on a thread that belongs to the test.
    private static func wait(for gate: DispatchSemaphore) -> Bool {
        gate.wait(timeout: .now() + 60) == .success
    }
}
