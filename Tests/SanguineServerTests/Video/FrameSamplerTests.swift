import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Pictures from a video", .bounded)
struct FrameSamplerTests {
    private static let picture: [UInt8] = [0xFF, 0xD8, 1, 0xFF, 0xD9]
    private static let video = UpstreamPrompt.Message.Part.file(
        name: "a.mp4",
        type: "video/mp4",
        bytes: [7]
    )

    private func prompt(_ parts: [UpstreamPrompt.Message.Part]) -> UpstreamRequest {
        .prompt(UpstreamPrompt(messages: [.init(.user, parts)], maxOutputTokens: 9))
    }

    // MARK: - A prompt

    @Test func `pictures replace the video, and all other parts stay`() async throws {
        let sampler = FrameSampler(count: 2) { video, type, count throws(FrameSampler.Failure) in
            #expect((video, type, count) == ([7], "video/mp4", 2))
            return [Self.picture, [3]]
        }
        let file = UpstreamPrompt.Message.Part.file(name: "a", type: "text/plain", bytes: [1])
        let made = try await sampler.request(
            prompt([.text("a"), Self.video, file, .text("b")]),
            within: .seconds(1),
            ManualClock()
        )
        let pictures = [Self.picture, [3]].map {
            UpstreamPrompt.Message.Part.image(type: "image/jpeg", bytes: $0)
        }
        #expect(made == prompt([.text("a")] + pictures + [file, .text("b")]))
    }

    @Test func `sampling that takes too long times out`() async throws {
        let (clock, hasEnded, never) = (ManualClock(), WatchedState(false), WatchedState(false))
        let sampler = FrameSampler(count: 2) { _, _, _ throws(FrameSampler.Failure) in
            try? await never.wait(for: "the cancellation") { $0 }
            hasEnded.withLock { $0 = true }
            throw .cancelled
        }
        let request = prompt([Self.video])
        let call = Task { try await sampler.request(request, within: .seconds(5), clock) }
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(5))
        await #expect(throws: FrameSampler.Failure.timeout) { try await call.finished() }
        #expect(hasEnded.value)
    }

    @Test func `several videos share the timeout`() async throws {
        let (clock, times) = (ManualClock(), WatchedState(0))
        let never = WatchedState(false)
        let sampler = FrameSampler(count: 1) { _, _, _ throws(FrameSampler.Failure) in
            guard
                times.withLock({ times in
                    times += 1
                    return times == 2
                })
            else {
                clock.advance(by: .seconds(2))
                return [Self.picture]
            }
            try? await never.wait(for: "the cancellation") { $0 }
            throw .cancelled
        }
        let request = prompt([Self.video, Self.video])
        let call = Task { try await sampler.request(request, within: .seconds(5), clock) }
        try await times.wait(for: "the second video") { $0 == 2 }
        try await clock.waitForSleepers(1, dueIn: .seconds(3))
        clock.advance(by: .seconds(3))
        await #expect(throws: FrameSampler.Failure.timeout) { try await call.finished() }
    }

    @Test func `the number of videos read at once is limited`() async throws {
        let running = Mutex(0)
        let most = Mutex(0)
        let gate = WatchedState(false)
        let sampler = FrameSampler(count: 1, atOnce: 2) { _, _, _ throws(FrameSampler.Failure) in
            let now = running.withLock { count in
                count += 1
                return count
            }
            most.withLock { $0 = max($0, now) }
            try? await gate.wait(for: "the gate") { $0 }
            running.withLock { $0 -= 1 }
            return [Self.picture]
        }
        let request = prompt([Self.video])
        let calls = Task {
            try await withThrowingTaskGroup(of: UpstreamRequest.self) { group in
                for number in 1...9 {
                    let account = Identifier(at: Timestamp(millisecondsSince1970: Int64(number)))
                    group.addTask {
                        try await sampler.request(
                            request,
                            of: account,
                            within: .seconds(60),
                            ManualClock()
                        )
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
        }
        try await eventually("two videos are being read") { running.withLock { $0 } == 2 }
        gate.withLock { $0 = true }
        #expect(try await calls.finished().count == 9)
        #expect(most.withLock { $0 } == 2)
    }

    @Test func `one account's many videos delay another's first by one`() async throws {
        let (begun, allowed) = (WatchedState<[UInt8]>([]), WatchedState(0))
        let sampler = FrameSampler(count: 1, atOnce: 1) { video, _, _ in
            let number = begun.withLock { begun in
                begun += video
                return begun.count
            }
            try? await allowed.wait(for: "its turn") { $0 >= number }
            return [Self.picture]
        }
        var calls: [Task<UpstreamRequest, any Error>] = []
        let accounts = (1...2).map { Identifier(at: Timestamp(millisecondsSince1970: $0)) }
        for (number, account) in [1, 1, 1, 1, 2].enumerated() {
            let video = UpstreamPrompt.Message.Part.file(
                name: "a.mp4",
                type: "video/mp4",
                bytes: [UInt8(account)]
            )
            let request = prompt([video])
            calls.append(
                Task {
                    try await sampler.request(
                        request,
                        of: accounts[account - 1],
                        within: .seconds(60),
                        ManualClock()
                    )
                }
            )
            try await eventually("\(number) videos wait") { sampler.waiting == number }
            if number == 0 { try await begun.wait(for: "the first video") { $0.count == 1 } }
        }
        allowed.withLock { $0 = calls.count }
        for call in calls { _ = try await call.finished() }
        #expect(begun.value == [1, 1, 2, 1, 1])
    }

    @Test func `an account is limited to half of the turns, so that another's video does not wait`()
        async throws
    {
        let (begun, gate) = (WatchedState(0), WatchedState(false))
        let sampler = FrameSampler(count: 1, atOnce: 4) { video, _, _ in
            begun.withLock { $0 += 1 }
            if video == [7] { try? await gate.wait(for: "the gate") { $0 } }
            return [Self.picture]
        }
        let accounts = (1...2).map { Identifier(at: Timestamp(millisecondsSince1970: $0)) }
        let slow = prompt([Self.video])
        let calls = (1...4).map { _ in
            Task {
                try await sampler.request(
                    slow,
                    of: accounts[0],
                    within: .seconds(60),
                    ManualClock()
                )
            }
        }
        try await begun.wait(for: "two videos of the first account") { $0 == 2 }
        try await eventually("the other videos wait") { sampler.waiting == 2 }
        let quick = prompt([.file(name: "b.mp4", type: "video/mp4", bytes: [8])])
        let other = Task {
            try await sampler.request(
                quick,
                of: accounts[1],
                within: .seconds(60),
                ManualClock()
            )
        }
        _ = try await other.finished()
        #expect(begun.value == 3 && sampler.waiting == 2)
        gate.withLock { $0 = true }
        for call in calls { _ = try await call.finished() }
    }

    @Test func `a video without pictures is unreadable`() async throws {
        let sampler = FrameSampler(count: 1) { _, _, _ throws(FrameSampler.Failure) in [] }
        await #expect(throws: FrameSampler.Failure.unreadable("it has no frames")) {
            try await sampler.request(prompt([Self.video]), within: .seconds(1), ManualClock())
        }
    }
}
