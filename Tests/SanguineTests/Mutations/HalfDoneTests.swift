import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// A `send` that throws after the backend has answered one of its requests.
@Suite("A mutation that fails after its request", .bounded)
struct HalfDoneTests {
    private struct Unexpected: Error {}

    private struct Locked: ClassifiedError {
        var errorClass: ErrorClass { .refused }
    }

    /// The step that `send` performs after its request, by the name of the test's mutation.
    private static let steps = Mutex<[String: @Sendable (MutationContext) async throws -> Void]>(
        [:]
    )

    private struct LikeAndMore: RemoteMutation {
        static let name = "song.like-and-more"
        let test: String

        func effects(on view: inout MutationEffects) {
            view.update(.song("a")) { $0.likes += 1 }
        }

        func send(_ request: MutationContext) async throws {
            try await request.post("songs/a/like")
            try await HalfDoneTests.steps.withLock { $0[test] }?(request)
        }
    }

    private let fixture = SongFixture(onDisk: true)
    private let test = UUID().uuidString

    private func client(seed: UInt64 = 1) throws -> SanguineClient {
        try fixture.client(seed: seed) { $0.register(LikeAndMore.self) }
    }

    private func then(_ step: (@Sendable (MutationContext) async throws -> Void)?) {
        Self.steps.withLock { $0[test] = step }
    }

    @Test(arguments: [false, true])
    func `retrying a refusal that the app threw keeps the key`(isRestarted: Bool) async throws {
        var client = try client()
        _ = try await client.value(of: .song("a"))
        then { _ in throw Unexpected() }
        let receipt = try client.perform(LikeAndMore(test: test))
        guard case .refused(let problem) = try await receipt.outcome else {
            Issue.record("It was not refused.")
            return
        }
        #expect(problem.code == .mutatorFailed && problem.detail.contains("keeps its key"))
        // The backend has applied it, and the app shows it.
        #expect(try await client.value(of: .song("a")).likes == 11)
        if isRestarted {
            client.close()
            client = try self.client(seed: 2)
        }
        #expect(client.outbox.refused.map(\.isPartlyDone) == [true])
        then(nil)
        let again = try client.outbox.retry(receipt.id)
        #expect(try await again.outcome == .applied && again.id == receipt.id)
        try await client.settle()
        #expect(Set(fixture.writes.map { $0.headers["Idempotency-Key"] }).count == 1)
        #expect(fixture.server.likes(of: "a") == 11 && client.likes("a") == 11)
        client.close()
    }

    @Test func `the refusal of a second request keeps the key`() async throws {
        let client = try client()
        defer { client.close() }
        then { try await $0.post("songs/none/like") }
        let receipt = try client.perform(LikeAndMore(test: test))
        guard case .refused(let problem) = try await receipt.outcome else {
            Issue.record("It was not refused.")
            return
        }
        #expect(problem.status == 404)
        #expect(client.outbox.refused.map(\.isPartlyDone) == [true])
    }

    @Test func `a success that the app reports as a refusal is a refusal`() async throws {
        let client = try client()
        defer { client.close() }
        then { _ in throw Locked() }
        let receipt = try client.perform(LikeAndMore(test: test))
        guard case .refused = try await receipt.outcome else {
            Issue.record("It was not refused.")
            return
        }
        #expect(client.outbox.refused.map(\.isPartlyDone) == [false])
        then(nil)
        let again = try client.outbox.retry(receipt.id)
        #expect(try await again.outcome == .applied && again.id != receipt.id)
    }

    @Test func `an error before any answer is an ordinary refusal`() async throws {
        let client = try client()
        defer { client.close() }
        fixture.server.fail(.status(422))
        let receipt = try client.perform(LikeAndMore(test: test))
        guard case .refused = try await receipt.outcome else {
            Issue.record("It was not refused.")
            return
        }
        #expect(client.outbox.refused.map(\.isPartlyDone) == [false])
    }

    @Test func `a network failure after an answer is retried under the same key`() async throws {
        let client = try client()
        defer { client.close() }
        let count = Mutex(0)
        then { _ in
            let isFirst = count.withLock { count in
                count += 1
                return count == 1
            }
            if isFirst { throw URLError(.networkConnectionLost) }
        }
        let receipt = try client.perform(LikeAndMore(test: test))
        try await fixture.pass(untilWrites: 2)
        #expect(try await receipt.outcome == .applied)
        #expect(Set(fixture.writes.map { $0.headers["Idempotency-Key"] }).count == 1)
    }
}
