import AlmanacApp
import AlmanacModel
import AlmanacSky
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Threads on several devices of a user, with the real server.
@Suite("Threads of Almanac", .bounded(.seconds(120)))
struct AlmanacThreadTests {
    @Test func `threads are the same on two devices and offline, until they are deleted`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let phone = try world.client()
            let (screen, _) = try await world.born(phone)
            try world.join("tablet")
            let tablet = try world.client("tablet")
            let other = await world.screen(tablet)
            _ = try await tablet.value(of: .account)

            // Before the model answers, question and answer are on both devices.
            let asked = try #require(try await screen.ask("Will I move?", in: .career))
            let id = await asked.thread.id
            #expect(await screen.threads(in: .career).map(\.id) == [id])
            #expect(await screen.threads(in: .love).isEmpty)
            #expect(await asked.thread.messages.map(\.phase) == [.complete, .making])
            let shown = await other.thread(id)
            try await eventually("the question on the tablet", within: .seconds(30)) {
                try await tablet.synchronize()
                return await shown.messages.map(\.phase) == [.complete, .making]
            }
            let answer = try await world.modelClock.advancing { try await asked.answer() }
            let texts = ["Will I move?", answer.text]
            try await world.expect(texts, in: id, titled: "Will I move?", on: [phone, tablet])

            try await shown.rename(to: "The move")
            try await shown.set(area: Area.family.rawValue, settings: ["tone": "calm"])
            try await tablet.synchronize()
            try await world.expect(texts, in: id, titled: "The move", on: [tablet, phone])
            let thread = try #require(await screen.threads(in: .family).first)
            #expect(thread.settings == ["tone": "calm"] && thread.titleSource == .own)

            // The model's clock stands: the session's cache answers.
            let again = try #require(try await screen.ask("Will I move?", in: .career, thread: id))
            let repeated = try await again.answer()
            #expect(repeated.charged == 0 && repeated.text == answer.text)
            try await world.expect(texts + texts, in: id, titled: "The move", on: [phone, tablet])
            phone.close()

            let time = try await world.timeToThread(id, texts + texts)
            try await other.delete(id)
            try await tablet.synchronize()
            let reopened = try world.client()
            try await reopened.synchronize()
            let left = reopened.threads.list().count + tablet.threads.list().count
            #expect(left == 0 && reopened.threads.messages(of: id).isEmpty)
            printFigure(
                "C5",
                ours: """
                    \(2 * texts.count) messages on 2 devices, \(time.milliseconds) to them \
                    offline, \(left) after a deletion
                    """
            )
            reopened.close()
            tablet.close()
        }
    }

    @Test func `a new device restores profile, threads and matches at once, after a break too`()
        async throws
    {
        try await AlmanacWorld.with { world in
            let phone = try world.client()
            let (screen, birth) = try await world.born(phone)
            let asked = try #require(try await screen.ask("Will I travel?", in: .career))
            let answer = try await world.modelClock.advancing { try await asked.answer() }
            let id = await asked.thread.id
            phone.close()
            try await world.add(matches: Self.matches)

            // The new device's network fails after some pages.
            let network = CountedNetwork(pulls: 2)
            try world.join("tablet")
            let broken = try world.client("tablet") { $0.transport = network }
            _ = await world.screen(broken)
            try await eventually("a part", within: .seconds(30)) {
                let progress = broken.cached(.restoreProgress)
                return progress.fraction > 0 && !progress.isComplete
            }
            let part = broken.cached(.restoreProgress).fraction
            broken.close()

            network.allowAll()
            let tablet = try world.client("tablet") { $0.transport = network }
            let resumed = tablet.cached(.restoreProgress).fraction
            #expect(resumed >= part && resumed < 1)
            let start = ContinuousClock.now
            let other = await world.screen(tablet)
            try await Task {
                for await progress in tablet.updates(of: .restoreProgress)
                where progress.isComplete { break }
            }
            .finished("the restore", within: .seconds(30))
            let time = ContinuousClock.now - start
            try await eventually("the profile") { await other.birth == birth }
            try await eventually("the matches") { await other.matches.count == Self.matches }
            #expect(await other.threads(in: .career).map(\.id) == [id])
            let texts = await other.thread(id).messages.map(\.text)
            #expect(texts == ["Will I travel?", answer.text])
            #expect(await other.restore == RestoreProgress(fraction: 1, isComplete: true))
            let requests = network.most
            #expect(requests > 1)
            printFigure(
                "C6",
                ours: """
                    \(Self.matches) matches, a thread and the profile in \(time.milliseconds) from \
                    \(Int(resumed * 100)) % on, \(requests) requests at once
                    """
            )
            tablet.close()
        }
    }

    /// More than fit in three pages of the feed.
    private static let matches = 3_300

    @Test func `a question without a network waits in its thread and area`() async throws {
        try await AlmanacWorld.with { world in
            let connectivity = ManualConnectivity()
            let client = try world.client { $0.connectivity = connectivity }
            let (screen, _) = try await world.born(client)
            connectivity.disconnect()
            let asked = try #require(try await screen.ask("Will I marry?", in: .love))
            let id = await asked.thread.id
            #expect(await screen.threads(in: .love).map(\.id) == [id])
            #expect(await asked.thread.messages.last?.phase == .waiting)

            connectivity.connect()
            let answer = try await world.modelClock.advancing { try await asked.answer() }
            #expect(answer.phase == .complete)
            let texts = ["Will I marry?", answer.text]
            try await world.expect(texts, in: id, titled: "Will I marry?", on: [client])
            #expect(await screen.threads(in: .love).map(\.id) == [id])
            client.close()
        }
    }

    @Test func `a thread of another user is not found`() async throws {
        try await AlmanacWorld.with { world in
            let client = try world.client()
            let (screen, _) = try await world.born(client)
            let asked = try #require(try await screen.ask("Will I travel?"))
            _ = try await world.modelClock.advancing { try await asked.answer() }
            let id = await asked.thread.id

            let stranger = try world.client("stranger")
            let (other, _) = try await world.born(stranger)
            try await stranger.synchronize()
            #expect(await other.threads().isEmpty)
            #expect(await other.thread(id).messages.isEmpty)
            // The first search begins the index.
            _ = try await stranger.threads.search(prefix: "travel")
            try await stranger.waitUntilIdle()
            let found = try await stranger.threads.search(prefix: "travel")
            #expect(found.isComplete && found.results.isEmpty)
            let error = #expect(throws: SanguineError.self) {
                try stranger.threads.rename(id, to: "Mine")
            }
            #expect(error?.code == "not_found")
            for device in [client, stranger] { device.close() }
        }
    }
}

extension AlmanacWorld {
    /// Expects the messages and the title of a thread on devices, once they have synchronized.
    fileprivate func expect(
        _ texts: [String],
        in thread: RecordID,
        titled title: String,
        on devices: [SanguineClient]
    ) async throws {
        for device in devices {
            try await eventually("the thread '\(title)'", within: .seconds(30)) {
                try await device.synchronize()
                return device.threads.list().map(\.title) == [title]
                    && device.threads.messages(of: thread).map(\.text) == texts
            }
        }
    }

    /// Returns the median time to the messages of a thread after a start without a network.
    fileprivate func timeToThread(_ id: RecordID, _ texts: [String]) async throws -> Duration {
        let network = RecordedNetwork()
        network.disconnect()
        return try await median(of: 7) {
            let client = try client { $0.transport = network }
            defer { client.close() }
            let start = ContinuousClock.now
            let messages = await screen(client).thread(id).messages
            let time = ContinuousClock.now - start
            #expect(messages.map(\.text) == texts)
            return time
        }
    }

    /// Adds matches to the account, on a device of their own.
    fileprivate func add(matches count: Int) async throws {
        try join("laptop")
        let laptop = try client("laptop")
        defer { laptop.close() }
        let birth = try Self.birth()
        let match = try CreateRecord(Match(groom: birth, bride: birth))
        for number in 1...count {
            try laptop.perform(CreateRecord(RecordKey(match.collection, .new()), match.fields))
            guard number % 500 == 0 || number == count else { continue }
            try await eventually("\(number) matches", within: .seconds(30)) {
                try await laptop.synchronize()
                return laptop.outbox.summary.unsent == 0
            }
        }
    }
}

/// The real network of a device, which counts concurrent requests, and can fail for records.
private final class CountedNetwork: StreamingTransport {
    private struct State {
        /// The number of requests for records that may still be sent; `nil` for any number.
        var pulls: Int?
        var running = 0
        var most = 0
    }

    private let base = URLSessionTransport.patient
    private let state: WatchedState<State>

    init(pulls: Int) { state = WatchedState(State(pulls: pulls)) }

    /// The greatest number of concurrent requests.
    var most: Int { state.withLock { $0.most } }

    func allowAll() { state.withLock { $0.pulls = nil } }

    func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        let isPull = request.url.path() == "/v1/sync/pull"
        let isLost = state.withLock { state in
            if isPull, let pulls = state.pulls {
                guard pulls > 0 else { return true }
                state.pulls = pulls - 1
            }
            state.running += 1
            state.most = max(state.most, state.running)
            return false
        }
        if isLost { throw .interrupted("the network is lost") }
        defer { state.withLock { $0.running -= 1 } }
        return try await base.send(request)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        try await base.stream(request)
    }
}
