import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import ServiceLifecycle
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Server life cycle", .bounded)
struct LifecycleTests {
    @Test func `live and ready return 200 on a healthy server`() async throws {
        try await LiveServer.with { server in
            for path in ["/health/live", "/health/ready"] {
                let reply = try await server.send("GET", path)
                #expect(reply.status == 200)
                #expect(try reply.json["status"] == "ok")
                #expect(reply["Cache-Control"] == "no-store")
            }
        }
    }

    @Test(arguments: [
        StorageError.closed, .overloaded(retryAfterSeconds: 2), .failed("/data/disk"),
    ])
    func `a failing storage makes a server unready, but it stays live`(
        failure: StorageError
    ) async throws {
        try await LiveServer.with {
            $0.storage = FaultyStorage(failure)
        } _: { server in
            #expect(try await server.send("GET", "/health/live").status == 200)
            let reply = try await server.send("GET", "/health/ready")
            #expect(reply.status == 503)
            #expect(reply["Retry-After"] != nil)
            #expect(!reply.body.contains("/data"))
        }
    }

    @Test func `an overloaded storage returns 503 and a failed one 500, without the reason`()
        async throws
    {
        let body = #"{"deviceId":"1234567890123456","deviceSecret":"\#(Guest.secret(1))"}"#
        let busy = FaultyStorage(.overloaded(retryAfterSeconds: 2))
        try await LiveServer.with {
            $0.storage = busy
        } _: { server in
            let reply = try await server.send("POST", "/v1/accounts/guest", body)
            #expect(reply.status == 503)
            #expect(reply.code == "overloaded")
            #expect(reply["Retry-After"] == "2")
        }
        for failure in [StorageError.failed("/data/disk"), .unknownOutcome("/data/disk")] {
            try await LiveServer.with {
                $0.storage = FaultyStorage(failure)
            } _: { server in
                let reply = try await server.send("POST", "/v1/accounts/guest", body)
                #expect(reply.status == 500)
                #expect(reply.code == "internal_fault")
                #expect(!reply.body.contains("/data"))
            }
        }
    }

    @Test func `a graceful shutdown waits for a running call before run returns`() async throws {
        let setup = LiveServer.Setup()
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            async let running = guest.echo("the last", key: "k", delayMs: 1_000)
            try await setup.delay.waitForSleepers(2)
            await server.group.triggerGracefulShutdown()
            try await setup.delay.waitForSleepers(1)
            setup.delay.advance(by: .seconds(1))
            let answer = try await running
            #expect(answer.status == 200)
        }
        // The port is closed, and the responses are stored.
        try await LiveServer.with(setup) { server in
            let holds = try await setup.storage.openHolds(
                expiringBy: Timestamp(millisecondsSince1970: .max),
                limit: 10
            )
            #expect(holds.isEmpty)
            #expect(try await setup.storage.verifyLedger().differences.isEmpty)
        }
    }

    @Test func `calls that outlast the grace period return 409 and keep their keys`()
        async throws
    {
        var setup = LiveServer.Setup()
        setup.settings.limits.shutdownGrace = .seconds(2)
        let device = "a-device-that-waits-long"
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest(device: device)
            async let first = guest.echo("a", key: "a", delayMs: 10_000)
            async let second = guest.echo("b", key: "b", delayMs: 10_000)
            // The two calls, and housekeeping.
            try await setup.delay.waitForSleepers(3)
            await server.group.triggerGracefulShutdown()
            try await setup.delay.waitForSleepers(4)
            for _ in 1...2 {
                setup.delay.advance(by: .seconds(1))
                try await setup.delay.waitForSleepers(2)
            }
            for reply in try await [first, second] {
                #expect(reply.status == 409)
                #expect(reply.code == "operation_in_progress")
                #expect(reply["Retry-After"] == "1")
                #expect(reply.body.contains("same key"))
            }
        }
        let held = try await setup.storage.openHolds(
            expiringBy: Timestamp(millisecondsSince1970: .max),
            limit: 10
        )
        #expect(held.count == 2)
        #expect(try await setup.storage.verifyLedger().differences.isEmpty)
        // A call that was never sent costs nothing and may be repeated.
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest(device: device)
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (100, 0))
        }
    }

    @Test func `run returns only after a call without a client is settled`() async throws {
        let setup = LiveServer.Setup()
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let call = Task { try await guest.echo("gone", key: "k", delayMs: 1_000) }
            try await setup.delay.waitForSleepers(2)
            call.cancel()
            let error = await #expect(throws: (any Error).self) { try await call.finished() }
            #expect(!(error is WaitTimeout))
            await server.group.triggerGracefulShutdown()
            setup.delay.advance(by: .seconds(1))
        }
        let operations = try await setup.storage.runningOperations(after: nil, limit: 10)
        #expect(operations.isEmpty)
    }

    @Test func `an unsent call of a dead process is released and may be repeated`()
        async throws
    {
        let setup = LiveServer.Setup()
        let device = "a-device-that-comes-back"
        try await LiveServer.with(setup) { server in
            // The state that a process leaves if it dies between accepting and ending a call.
            let guest = try await server.guest(device: device)
            let authority = Authority(storage: setup.storage, keys: setup.keys)
            let terms = CallTerms(
                operation: Identifier(at: Timestamp(millisecondsSince1970: 0)),
                function: "echo",
                hold: 1,
                life: .seconds(600)
            )
            let request: JSONValue = ["input": ["text": "a", "delayMs": 0]]
            let submission = Submission(
                key: "k",
                fingerprint: Fingerprint(
                    "POST",
                    "/v1/functions/echo",
                    String(decoding: ResponseEncoder.encode(request), as: UTF8.self)
                ),
                content: Result<CallTerms, Problem>.success(terms)
            )
            _ = try await authority.start(guest.account.id, submission)
            #expect(try await guest.balance().held == 1)
            #expect(try await guest.echo("a", key: "k").code == "operation_in_progress")
        }
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest(device: device)
            let balance = try await guest.balance()
            #expect((balance.available, balance.held) == (100, 0))
            let reply = try await guest.echo("a", key: "k")
            #expect(reply.status == 200)
            #expect(reply["Idempotency-Replayed"] == nil)
            #expect(try await guest.balance().available == 99)
        }
    }

    @Test func `sessions survive a restart, and ended ones stay ended`() async throws {
        let setup = LiveServer.Setup()
        var tokens: (kept: String, ended: String) = ("", "")
        try await LiveServer.with(setup) { server in
            let kept = try await server.guest()
            let ended = try await server.guest()
            #expect(try await ended.send("DELETE", "/v1/sessions/current").status == 204)
            tokens = (kept.session.accessToken, ended.session.accessToken)
        }
        try await LiveServer.with(setup) { server in
            for (token, status) in [(tokens.kept, 200), (tokens.ended, 401)] {
                let headers = ["Authorization": "Bearer \(token)"]
                let reply = try await server.send("GET", "/v1/account", headers: headers)
                #expect(reply.status == status)
            }
        }
    }

    @Test func `the error for a taken port names the port and its flag`() async throws {
        try await LiveServer.with { server in
            for (port, flag) in [
                (server.ports.http, "--port"), (server.ports.admin, "--admin-port"),
            ] {
                var setup = LiveServer.Setup()
                if flag == "--port" {
                    setup.settings.http.port = port
                } else {
                    setup.settings.http.adminPort = port
                }
                let error = await #expect(throws: PortTaken.self) {
                    try await LiveServer.with(setup) { _ in }
                }
                #expect(error == PortTaken(port: port, flag: flag))
            }
        }
    }

    @Test func `invalid settings are refused before the server starts`() async throws {
        var setup = LiveServer.Setup()
        setup.settings.limits.bodyBytes = 0
        await #expect(throws: SettingsError.self) { try await setup.server() }
    }
}
