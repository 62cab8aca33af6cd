import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Errors that a mutation's `send` throws when the app uses its own network stack.
@Suite("Errors from a mutation's closure", .bounded)
struct MutationErrorTests {
    /// The errors that the next sends throw, by the name of the test's mutation.
    private static let failures = Mutex<[String: [any Error]]>([:])

    /// Sends with code that the client does not know.
    private struct SendOwn: RemoteMutation {
        static let name = "song.own"
        let test: String

        func effects(on view: inout MutationEffects) {
            view.update(.song("a")) { $0.likes += 1 }
        }

        func send(_ request: MutationContext) async throws {
            let error = MutationErrorTests.failures.withLock { failures -> (any Error)? in
                guard var rest = failures[test], !rest.isEmpty else { return nil }
                defer { failures[test] = rest }
                return rest.removeFirst()
            }
            if let error { throw error }
        }
    }

    /// Updates a value that follows the server, in a way that the compiler cannot detect.
    private struct ChangeDerived: RemoteMutation {
        static let name = "derived.change"
        let isBalance: Bool

        func effects(on view: inout MutationEffects) {
            if isBalance { change(.balance, on: &view) } else { change(.quotas, on: &view) }
        }

        private func change<Value>(_ query: ValueQuery<Value>, on view: inout MutationEffects) {
            view.update(query) { _ in }
        }

        func send(_ request: MutationContext) async throws {}
    }

    @Test(arguments: [true, false])
    func `perform refuses a mutation that updates a value that follows the server`(
        isBalance: Bool
    ) throws {
        let client = try SongFixture().client { $0.register(ChangeDerived.self) }
        let error = #expect(throws: SanguineError.self) {
            try client.perform(ChangeDerived(isBalance: isBalance))
        }
        #expect(error?.description.contains("Remove that update") == true)
        #expect(client.outbox.pending.isEmpty)
    }

    private static func outcome(
        throwingOnce error: any Error,
        _ test: String = #function + UUID().uuidString
    ) async throws -> (outcome: Receipt.Outcome, refused: [Outbox.Refused]) {
        failures.withLock { $0[test] = [error] }
        let fixture = SongFixture()
        let client = try fixture.client { configuration in
            configuration.register(SendOwn.self)
            configuration.delay = ContinuousClock()
        }
        defer { client.close() }
        let receipt = try client.perform(SendOwn(test: test))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }
        return (outcome, client.outbox.refused)
    }

    @Test(arguments: ClosureErrorTests.network.indices)
    func `a network error is retried`(place: Int) async throws {
        let error = ClosureErrorTests.network[place]
        let (outcome, refused) = try await Self.outcome(throwingOnce: error)

        #expect(outcome == .applied, "\(error)")
        #expect(refused.isEmpty)
    }

    @Test func `an error of the app refuses the mutation with its text`() async throws {
        let (outcome, refused) = try await Self.outcome(throwingOnce: ClosureErrorTests.Locked())
        let problem = try #require(refused.first?.problem)

        #expect(outcome == .refused(problem))
        #expect(problem.code == .mutatorFailed)
        #expect(problem.detail.contains("the song is locked"))
        #expect(problem.detail.contains("'song.own'"))
        #expect(!problem.description.lowercased().contains("query"))
    }

    @Test func `a problem with the app's own code refuses the mutation and is not a server fault`()
        async throws
    {
        let own = Problem(ProblemCode(rawValue: "song_locked"), "Ask its owner.")
        let (outcome, refused) = try await Self.outcome(throwingOnce: own)

        #expect(outcome == .refused(own))
        #expect(refused.map(\.problem.code.rawValue) == ["song_locked"])
        #expect(refused.first?.problem.description.contains("The server has a fault.") == false)
    }

    @Test func `a thrown refusal is used unchanged`() async throws {
        let refusal = Refusal(.notOwner, "Ask its owner.")
        let (outcome, _) = try await Self.outcome(throwingOnce: refusal)

        #expect(outcome == .refused(refusal.problem))
    }

    @Test(arguments: [
        SanguineError.conflictingQuery(name: "song"), .rangeTooLong(limit: 1),
        .transport(.invalid("no address")),
    ])
    func `an error that a retry cannot fix refuses the mutation`(error: SanguineError) async throws
    {
        let (outcome, refused) = try await Self.outcome(throwingOnce: error)
        let problem = try #require(refused.first?.problem)

        #expect(outcome == .refused(problem))
        #expect(problem.detail.contains("\(error)"))
    }

    @Test(arguments: [ErrorClass.retryable, .waits, .cancelled])
    func `a retryable error of the app is retried`(
        errorClass: ErrorClass
    ) async throws {
        let error = ClosureErrorTests.Classified(errorClass: errorClass)
        let (outcome, refused) = try await Self.outcome(throwingOnce: error)

        #expect(outcome == .applied)
        #expect(refused.isEmpty)
    }

    @Test(arguments: [ErrorClass.refused, .gone, .defect])
    func `a permanent error of the app refuses the mutation`(
        errorClass: ErrorClass
    ) async throws {
        let error = ClosureErrorTests.Classified(errorClass: errorClass)
        let (outcome, refused) = try await Self.outcome(throwingOnce: error)
        let problem = try #require(refused.first?.problem)

        #expect(outcome == .refused(problem))
        #expect(problem.code == .mutatorFailed)
    }

    /// Sends with the system's own HTTP client.
    private struct SendByURLSession: RemoteMutation {
        static let name = "song.session"
        let address: URL

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationContext) async throws {
            _ = try await URLSession.shared.data(from: address)
        }
    }

    @Test func `a connection lost in the app's own network stack is retried`() async throws {
        let count = Mutex(0)
        let server = try LoopbackServer { _, _ in
            let number = count.withLock { count in
                count += 1
                return count
            }
            // The first answer stops in the middle of its body.
            return number == 1 ? nil : LoopbackServer.Reply(body: "done")
        }
        defer { server.stop() }
        let client = try SongFixture().client { configuration in
            configuration.register(SendByURLSession.self)
            configuration.delay = ContinuousClock()
        }
        defer { client.close() }
        let receipt = try client.perform(SendByURLSession(address: server.url("/half")))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }

        #expect(outcome == .applied)
        #expect(client.outbox.refused.isEmpty)
        #expect(server.received.count == 2)
    }
}
