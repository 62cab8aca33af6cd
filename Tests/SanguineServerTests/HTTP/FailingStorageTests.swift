import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("A storage that fails meanwhile", .bounded)
struct FailingStorageTests {
    /// Whether the keys are those with which a call is marked as sent.
    private static func areOfSending(_ keys: [Key]) -> Bool {
        if case .hold? = keys.first { keys.count == 1 } else { false }
    }

    /// Lets the tries to settle, and the pauses between them, go by.
    private func letTriesPass(_ server: LiveServer) async throws {
        for _ in 1...5 {
            try await server.setup.delay.waitForSleepers(2)
            server.setup.delay.advance(by: .seconds(4))
        }
    }

    @Test(arguments: [
        (StorageError.overloaded(retryAfterSeconds: 2), "operation_in_progress"),
        (.failed("disk"), "internal_fault"), (.unknownOutcome("disk"), "internal_fault"),
    ])
    func `a call that was accepted is never answered as if nothing had been changed`(
        failure: StorageError,
        code: String
    ) async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            async let running = guest.echo("a", key: "k", delayMs: 1_000)
            try await server.setup.delay.waitForSleepers(2)
            storage.fail { _ in failure }
            server.setup.delay.advance(by: .seconds(1))
            try await letTriesPass(server)
            let reply = try await running
            #expect(reply.code == code)
            #expect(reply.status == (code == "internal_fault" ? 500 : 409))
            #expect(reply["Retry-After"] == (code == "internal_fault" ? nil : "1"))

            storage.fail { _ in nil }
            #expect(try await guest.balance().held == 1)
            // No run is left that could end it: only its hold's expiry will, in ten minutes.
            let later = try await guest.echo("a", key: "k", delayMs: 1_000)
            #expect(later.status == 409)
            #expect(later["Retry-After"] == "60")
            server.setup.wall.advance(by: .seconds(590))
            let last = try await guest.echo("a", key: "k", delayMs: 1_000)
            #expect(last["Retry-After"] == "11")
        }
    }

    @Test func `a storage that recovers in time settles the call`() async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            async let running = guest.echo("a", delayMs: 1_000)
            try await server.setup.delay.waitForSleepers(2)
            storage.fail { _ in .overloaded(retryAfterSeconds: 1) }
            server.setup.delay.advance(by: .seconds(1))
            try await server.setup.delay.waitForSleepers(2)
            storage.fail { _ in nil }
            server.setup.delay.advance(by: .seconds(1))
            #expect(try await running.status == 200)
            #expect(try await guest.balance().available == 99)
        }
    }

    @Test(arguments: [
        (StorageError.overloaded(retryAfterSeconds: 2), 503), (.failed("disk"), 500),
    ])
    func `a call that cannot be marked as sent is taken back, and may be made again`(
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
                // One that could leave at once would be accepted as sent, in one commit.
                async let first = other.echo("a", delayMs: 1_000)
                try await server.setup.delay.waitForSleepers(2)
                async let asked = guest.ask("Is it late?", key: "k")
                try await server.setup.delay.waitForSleepers(3)
                server.setup.delay.advance(by: .seconds(1))
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

    @Test func `a call that outlived its hold is answered at once`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            async let running = guest.echo("a", delayMs: 2_000)
            try await server.setup.delay.waitForSleepers(2)
            server.setup.wall.advance(by: .seconds(900))
            server.setup.delay.advance(by: .seconds(1))
            try await server.setup.delay.waitForSleepers(2)
            server.setup.delay.advance(by: .seconds(1))
            let reply = try await running
            #expect((reply.status, reply.code) == (504, "upstream_timeout"))
        }
    }
}
