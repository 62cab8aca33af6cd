import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// A search in threads on a new device, whose records are still restored.
@Suite("Search during a restore", .bounded(.seconds(300)))
struct RestoredSearchTests {
    private let fixture = RecordsFixture(onDisk: true)
    private let thread = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 7)))

    /// Writes 9,000 records: the thread is among the newest, and its message in the middle.
    private func fill() throws {
        let now = fixture.wall.now()
        let id = try #require(ChatMessage.answer(of: "0199f3c8-0000-7000-8000-000000000001"))
        var message = ChatMessage(
            id: id,
            thread: thread,
            position: 1,
            role: .assistant,
            state: .complete,
            call: "0199f3c8-0000-7000-8000-000000000001",
            createdAt: now
        )
        message.set(MessageContent("Venus"))
        var stored = ChatThread(id: thread, function: Chat.name, createdAt: now)
        (stored.messages, stored.lastPosition) = (1, 1)
        for number in 0..<9_000 {
            if number == 4_500 { fixture.authority.set(message) }
            fixture.authority.set("c\(number)", to: Int64(number))
        }
        fixture.authority.set(stored)
    }

    /// Releases the waiting response with the newest records.
    private func releaseNewest() async throws {
        try await fixture.network.waitForHeld(RecordLimits.restoreRanges)
        let newest = fixture.network.held.map(\.pulledSince).max()
        try await fixture.network.releaseFirst { $0.pulledSince == newest }
    }

    @Test func `a message is found as soon as it is shown, and the search is incomplete`()
        async throws
    {
        try fill()
        let client = try fixture.client()
        fixture.network.hold()
        _ = client.threads.list()
        try await fixture.network.waitForHeld(1)
        try await fixture.network.releaseFirst()
        try await releaseNewest()
        try await eventually("the thread is shown") { !client.threads.list().isEmpty }
        let first = try await client.threads.search(prefix: "ven")
        #expect(first.results.isEmpty && !first.isComplete)
        for _ in 0..<6 where client.texts(thread).isEmpty {
            let count = client.records(Counter.self).count
            try await releaseNewest()
            try await eventually("a page is shown") { client.records(Counter.self).count > count }
        }
        #expect(client.texts(thread) == ["Venus"] && client.restored < 1)
        try await eventually("the message is found") {
            try await client.threads.search(prefix: "ven").results.count == 1
        }
        #expect(try await !client.threads.search(prefix: "ven").isComplete)
        fixture.network.release()
        try await client.synchronize()
        #expect(try await client.found("ven").count == 1)
        client.close()
    }

    @Test func `a cancelled search ends with that error`() async throws {
        let client = try fixture.client()
        let found = Task { () async -> Result<ThreadSearch, SanguineError> in
            withUnsafeCurrentTask { $0?.cancel() }
            do throws(SanguineError) {
                return .success(try await client.threads.search(prefix: "ven"))
            } catch {
                return .failure(error)
            }
        }
        let result = try await found.finished()
        #expect(throws: SanguineError.cancelled) { try result.get() }
        client.close()
    }
}

extension TransportRequest {
    /// The number after which a pull begins.
    fileprivate var pulledSince: Int64 {
        let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
        return items.first { $0.name == "since" }?.value.flatMap { Int64($0) } ?? -1
    }
}
