import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Storage failures during calls", .bounded)
struct FailingStorageTests {
    /// Whether the keys are those of the command that marks a call as sent.
    private static func areOfSending(_ keys: [Key]) -> Bool {
        if case .hold? = keys.first { keys.count == 1 } else { false }
    }

    /// The duration of the calls, which differs from the interval of the server's jobs.
    private static let time = Duration.milliseconds(1_500)

    /// Waits until the server sleeps for the given time, then advances the clock by it.
    private func letPass(_ time: Duration, _ server: LiveServer) async throws {
        try await server.setup.delay.waitForSleepers(1, dueIn: time)
        server.setup.delay.advance(by: time)
    }

    /// Whether the keys are those of the command that settles a call.
    private static func areOfSettling(_ keys: [Key]) -> Bool {
        let holds = keys.contains { if case .hold = $0 { true } else { false } }
        return holds && keys.count > 2
    }

    /// Lets housekeeping run once more.
    private func turn(_ server: LiveServer) async throws {
        try await letPass(Housekeeping.interval, server)
        try await server.setup.delay.waitForSleepers(1, dueIn: Housekeeping.interval)
    }

    /// Lets all attempts to settle, and the pauses between them, pass.
    private func letTriesPass(_ server: LiveServer) async throws {
        for number in 1...5 { try await letPass(.milliseconds(100 << number), server) }
    }

    @Test(arguments: [
        (StorageError.overloaded(retryAfterSeconds: 2), "operation_in_progress"),
        (.failed("disk"), "internal_fault"), (.unknownOutcome("disk"), "internal_fault"),
    ])
    func `an accepted call is never reported as if nothing had changed`(
        failure: StorageError,
        code: String
    ) async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            async let running = guest.echo("a", key: "k", delayMs: 1_500)
            try await server.setup.delay.waitForSleepers(1, dueIn: Self.time)
            storage.fail { _ in failure }
            server.setup.delay.advance(by: Self.time)
            try await letTriesPass(server)
            let reply = try await running
            #expect(reply.code == code)
            #expect(reply.status == (code == "internal_fault" ? 500 : 409))
            #expect(reply["Retry-After"] == (code == "internal_fault" ? nil : "1"))

            // Other requests succeed again, but the settlement still fails.
            storage.fail { Self.areOfSettling($0) ? failure : nil }
            try await turn(server)
            server.setup.wall.advance(by: .seconds(700))
            try await turn(server)
            #expect(try await guest.balance().held == 1)
            let later = try await guest.echo("a", key: "k", delayMs: 1_500)
            #expect(later.status == 409)
            #expect(later["Retry-After"] == "1")

            storage.fail { _ in nil }
            try await turn(server)
            let last = try await guest.echo("a", key: "k", delayMs: 1_500)
            #expect(last.status == 200)
            #expect(last["Idempotency-Replayed"] == "true")
            try await turn(server)
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (99, 0))
            #expect(try await storage.verifyLedger().differences.isEmpty)
        }
    }

    @Test func `a call is settled if the storage recovers in time`() async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            async let running = guest.echo("a", delayMs: 1_500)
            try await server.setup.delay.waitForSleepers(1, dueIn: Self.time)
            storage.fail { _ in .overloaded(retryAfterSeconds: 1) }
            server.setup.delay.advance(by: Self.time)
            try await server.setup.delay.waitForSleepers(1, dueIn: .milliseconds(200))
            storage.fail { _ in nil }
            server.setup.delay.advance(by: .milliseconds(200))
            #expect(try await running.status == 200)
            #expect(try await guest.balance().available == 99)
        }
    }

    @Test(arguments: [
        (StorageError.overloaded(retryAfterSeconds: 2), 503), (.failed("disk"), 500),
    ])
    func `a call that cannot be marked as sent is withdrawn and may be repeated`(
        failure: StorageError,
        status: Int
    ) async throws {
        let storage = FaultyStorage()
        try await ScriptedUpstream.with({ _ in
            .bytes(ScriptedUpstream.completion("Yes."))
        }) { upstream in
            try await LiveServer.with {
                $0.storage = storage
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.settings.limits.functionCalls = 1
            } _: { server in
                let (guest, other) = (try await server.guest(), try await server.guest())
                storage.fail { Self.areOfSending($0) ? failure : nil }
                // A call that can be sent at once is accepted and marked as sent in one commit.
                async let first = other.echo("a", delayMs: 1_500)
                try await server.setup.delay.waitForSleepers(1, dueIn: Self.time)
                async let asked = guest.ask("Is it late?", key: "k")
                // The call waits in the queue, for a minute at most.
                try await server.setup.delay.waitForSleepers(1, dueIn: .seconds(60))
                server.setup.delay.advance(by: Self.time)
                #expect(try await first.status == 200)
                #expect(try await asked.status == status)
                let balance = try await guest.balance()
                #expect((balance.available, balance.held) == (100, 0))

                storage.fail { _ in nil }
                let again = try await guest.ask("Is it late?", key: "k")
                #expect(again.status == 200)
                #expect(again["Idempotency-Replayed"] == nil)
                #expect(try await storage.verifyLedger().differences.isEmpty)
            }
        }
    }

    @Test func `a jump of the wall clock does not end a running call`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            async let running = guest.echo("a", delayMs: 1_500)
            try await server.setup.delay.waitForSleepers(1, dueIn: Self.time)
            try await server.setup.delay.waitForSleepers(1, dueIn: Housekeeping.interval)
            server.setup.wall.advance(by: .seconds(900))
            server.setup.delay.advance(by: Housekeeping.interval)
            // Housekeeping has run.
            try await server.setup.delay.waitForSleepers(1, dueIn: Housekeeping.interval)
            server.setup.delay.advance(by: Self.time - Housekeeping.interval)
            #expect(try await running.status == 200)
        }
    }
}
