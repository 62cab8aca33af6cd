import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A new device shows its records while they are restored.
@Suite("A restore that is shown", .bounded(.seconds(300))) struct ShownRestoreTests {
    private func filled(_ count: Int, onDisk: Bool = true) -> RecordsFixture {
        let fixture = RecordsFixture(onDisk: onDisk)
        for number in 0..<count { fixture.authority.set("c\(number)", to: Int64(number)) }
        return fixture
    }

    /// Returns when the first page is stored and each range waits for its response.
    private func begin(_ client: SanguineClient, _ fixture: RecordsFixture) async throws {
        fixture.network.hold()
        _ = client.count("c1")
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(RecordLimits.restoreRanges)
    }

    /// Releases the response with the newest records.
    private func releaseNewest(_ fixture: RecordsFixture) async throws {
        let newest = fixture.network.held.map(\.since).max()
        try await fixture.network.releaseFirst { $0.since == newest }
    }

    @Test(arguments: [true, false])
    func `the newest records are shown while the others are fetched`(_ onDisk: Bool) async throws {
        let fixture = filled(9_000, onDisk: onDisk)
        let client = try fixture.client()
        try await begin(client, fixture)
        #expect(client.count("c8999") == nil)
        try await releaseNewest(fixture)
        try await eventually("the newest record is shown") { client.count("c8999") == 8_999 }
        #expect(client.count("c4500") == nil && client.restored < 1)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 9_000)
    }

    @Test func `older records are not shown before the newest`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        let oldest = fixture.network.held.map(\.since).min()
        let requests = fixture.pulls.count
        try await fixture.network.releaseFirst { $0.since == oldest }
        // The next range is requested once the page is stored.
        try await fixture.network.waitForRequests(requests + 1)
        #expect(client.records(Counter.self).isEmpty)
        try await releaseNewest(fixture)
        try await eventually("both pages are shown") { client.records(Counter.self).count > 2_500 }
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 9_000)
    }

    @Test func `records that were shown are shown again after a crash, as incomplete`()
        async throws
    {
        let fixture = filled(9_000)
        let first = try fixture.client()
        try await begin(first, fixture)
        try await releaseNewest(fixture)
        try await eventually("the newest record is shown") { first.count("c8999") == 8_999 }
        let restored = first.restored
        first.close()
        let second = try fixture.client(seed: 2)
        #expect(second.count("c8999") == 8_999 && second.count("c4500") == nil)
        #expect(second.restored >= restored && second.restored < 1)
        let isComplete = second.cached(RecordQuery(reading: Counter.collection) { $0.isComplete })
        #expect(!isComplete)
        fixture.network.release()
        try await second.synchronize()
        #expect(second.records(Counter.self).count == 9_000 && second.restored == 1)
    }

    @MainActor @Test func `a model says that its value is incomplete until the restore has ended`()
        async throws
    {
        let fixture = filled(5_000)
        let client = try fixture.client()
        fixture.network.hold()
        let model = client.model(.all(Counter.self))
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await fixture.network.waitForHeld(RecordLimits.restoreRanges)
        #expect(!model.isComplete && model.value.isEmpty)
        try await releaseNewest(fixture)
        try await eventually("the newest are in the model") { !model.value.isEmpty }
        #expect(!model.isComplete && model.value.count < 5_000)
        fixture.network.release()
        try await eventually("the model is complete") { model.isComplete }
        #expect(model.value.count == 5_000)
    }

    @MainActor @Test func `a short feed makes a model complete at once`() async throws {
        let fixture = filled(3)
        let client = try fixture.client()
        let model = client.model(.all(Counter.self))
        try await eventually("the model is complete") { model.isComplete }
        #expect(model.value.count == 3 && client.cached(.restoreProgress).fraction == 1)
    }

    @Test func `progress never decreases and ends at 1`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        let seen = WatchedState<[RestoreProgress]>([])
        let updates = client.updates(of: .restoreProgress)
        let reader = Task {
            for await progress in updates {
                seen.withLock { $0.append(progress) }
                if progress == RestoreProgress(fraction: 1, isComplete: true) { break }
            }
        }
        try await reader.finished("the end of the restore")
        let values = seen.value
        for (earlier, later) in zip(values, values.dropFirst()) {
            #expect(later.fraction >= earlier.fraction && !earlier.isComplete)
        }
        #expect(values.count > 1 && client.records(Counter.self).count == 9_000)
    }

    @Test(arguments: 0...6)
    func `a restore that is interrupted after any page continues there`(_ pages: Int) async throws {
        let fixture = filled(5_000)
        var random = SplitMix64(seed: UInt64(pages))
        let first = try fixture.client()
        fixture.network.hold()
        _ = first.count("c1")
        for _ in 0..<pages {
            try await fixture.network.waitForHeld(1)
            let since = fixture.network.held.map(\.since).randomElement(using: &random)
            try await fixture.network.releaseFirst { $0.since == since }
        }
        first.close()
        fixture.network.release()
        let second = try fixture.client(seed: 2)
        try await second.synchronize()
        let counts = Set(second.records(Counter.self).map(\.count))
        #expect(counts == Set(0..<5_000))
        // Six pages, the changes since, and at most the pages in progress at the end.
        #expect(fixture.pulls.count <= 6 + 3 + RecordLimits.restoreRanges + 1)
        second.close()
    }

    /// Stores a page, and loses the request that follows it, and so the others.
    private func interrupt(
        _ fixture: RecordsFixture,
        using random: inout SplitMix64
    ) async throws {
        try await fixture.network.waitForHeld(RecordLimits.restoreRanges)
        let (requests, lost) = (fixture.network.requests.count, fixture.network.cancelled)
        let since = fixture.network.held.map(\.since).randomElement(using: &random)
        fixture.network.script(.fail(.offline("the network is gone")))
        try await fixture.network.releaseFirst { $0.since == since }
        try await fixture.network.waitForRequests(requests + 1)
        try await fixture.network.waitForHeld(RecordLimits.restoreRanges)
        let last = fixture.network.held.map(\.since).min()
        try await fixture.network.releaseFirst { $0.since == last }
        try await fixture.network.waitForCancelled(lost + RecordLimits.restoreRanges - 1)
    }

    @Test(arguments: 1...5)
    func `a restore continues when the network returns`(_ seed: UInt64) async throws {
        let fixture = filled(5_000)
        var random = SplitMix64(seed: seed)
        let client = try fixture.client { $0.recordPolling = nil }
        try await begin(client, fixture)
        let part = client.restored
        try await interrupt(fixture, using: &random)
        #expect(client.restored > part, "Seed \(seed)")
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 5_000 && client.restored == 1)
    }

    @Test func `a restore that makes progress is continued after the shortest wait`() async throws {
        let fixture = filled(12_000)
        var random = SplitMix64(seed: 7)
        let client = try fixture.client { $0.recordPolling = nil }
        let feed = client.users.current.feed
        try await begin(client, fixture)
        for _ in 0..<3 {
            try await interrupt(fixture, using: &random)
            try await eventually("the pull has ended") { !feed.isPulling }
            #expect(feed.survey.contains { $0.contains("1 failure in a row") })
            feed.pull()
        }
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == 12_000)
    }

    @Test func `at most four pages are fetched at the same time`() async throws {
        let fixture = filled(12_000)
        let client = try fixture.client()
        try await client.synchronize()
        #expect(fixture.network.mostInFlight <= RecordLimits.restoreRanges)
        #expect(client.records(Counter.self).count == 12_000)
    }

    @Test func `a later change or deletion is not overwritten by an older page`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        // Their pages were read by the server before, and are received afterwards.
        fixture.authority.set("c8500", to: -1)
        fixture.authority.delete(Counter.self, .of("c8400"))
        // Their pages are read afterwards.
        fixture.authority.set("c1500", to: -1)
        fixture.authority.delete(Counter.self, .of("c1600"))
        try await releaseNewest(fixture)
        try await eventually("the newest record is shown") { client.count("c8999") == 8_999 }
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("c8500") == -1 && client.count("c1500") == -1)
        #expect(client.count("c8400") == nil && client.count("c1600") == nil)
        #expect(client.records(Counter.self).count == 8_998)
    }

    @Test func `another device's changes are shown during a long restore`() async throws {
        let count = 10_000
        let fixture = filled(count)
        let client = try fixture.client()
        client.users.current.feed.restore.setRound(4)
        try await begin(client, fixture)
        fixture.authority.set("other", to: 5)
        fixture.authority.delete(Counter.self, .of("c\(count - 1)"))
        // The pages of the first round, and then the changes since the beginning.
        try await fixture.network.waitForHeld(1)
        while !fixture.network.held.contains(where: { $0.since >= Int64(count) }) {
            try await fixture.network.releaseFirst()
            try await fixture.network.waitForHeld(1)
        }
        let last = fixture.network.held.map(\.since).max()
        try await fixture.network.releaseFirst { $0.since == last }
        try await eventually("the other device's record is shown") { client.count("other") == 5 }
        #expect(client.count("c\(count - 1)") == nil && client.restored < 1)
        #expect(client.count("c2000") == nil)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.records(Counter.self).count == count)
    }

    @Test func `an operation on a shown record counts once until it is settled`() async throws {
        let fixture = filled(5_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        try await releaseNewest(fixture)
        try await eventually("the newest record is shown") { client.count("c4999") == 4_999 }
        let receipt = try client.add("c4999", by: 1)
        #expect(client.count("c4999") == 5_000)
        let updates = client.updates(of: .record(Counter.self, .of("c4999")))
        let seen = WatchedState<Set<Int64?>>([])
        let reader = Task {
            for await counter in updates { seen.withLock { $0.formUnion([counter?.count]) } }
        }
        try await fixture.network.releaseFirst { $0.isPush }
        #expect(try await receipt.outcome == .applied)
        #expect(client.count("c4999") == 5_000)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.count("c4999") == 5_000 && client.outbox.pending.isEmpty)
        client.close()
        try await reader.finished("the end of the updates")
        #expect(seen.value == [5_000])
    }

    @Test func `a sign-out during a restore leaves nothing`() async throws {
        let fixture = filled(9_000)
        let client = try fixture.client()
        try await begin(client, fixture)
        try await releaseNewest(fixture)
        try await eventually("the newest record is shown") { client.count("c8999") == 8_999 }
        let user = try #require(fixture.folder?.user)
        fixture.authorizer.change(to: nil, in: client)
        fixture.network.release()
        #expect(client.count("c8999") == nil && client.records(Counter.self).isEmpty)
        #expect(client.cached(.restoreProgress).fraction == 0)
        client.close()
        #expect(!FileManager.default.fileExists(atPath: user.path))
    }

    @Test func `the account is restored with the records, without a request of its own`()
        async throws
    {
        let fixture = filled(5_000)
        let client = try fixture.client()
        try await client.synchronize()
        #expect(client.cached(.account)?.id == fixture.authority.user)
        #expect(!fixture.network.requests.contains { $0.url.path() == "/v1/account" })
    }
}

extension TransportRequest {
    /// The number after which a pull begins.
    fileprivate var since: Int64 {
        let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
        return items.first { $0.name == "since" }?.value.flatMap { Int64($0) } ?? -1
    }
}
