import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Housekeeping", .bounded)
struct HousekeepingTests {
    /// Lets housekeeping run once more.
    private func turn(_ server: LiveServer) async throws {
        try await server.setup.delay.waitForSleepers(1)
        server.setup.delay.advance(by: Housekeeping.interval)
        try await server.setup.delay.waitForSleepers(1)
    }

    @Test func `a sweep that reaches its limit continues in the next runs until one does not`()
        async throws
    {
        let storage = FaultyStorage()
        storage.claimToSweep(Housekeeping.sweepLimit)
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            try await server.setup.delay.waitForSleepers(1)
            #expect(storage.sweeps == 1)
            try await turn(server)
            #expect(storage.sweeps == 2)
            storage.claimToSweep(Housekeeping.sweepLimit - 1)
            try await turn(server)
            try await turn(server)
            #expect(storage.sweeps == 3)
            for _ in 4..<Housekeeping.looksPerSweep { try await turn(server) }
            #expect(storage.sweeps == 3)
            try await turn(server)
            #expect(storage.sweeps == 4)
        }
    }

    @Test func `a hold that cannot be released delays neither other holds nor the sweep`()
        async throws
    {
        let storage = FaultyStorage()
        storage.claimToSweep(Housekeeping.sweepLimit)
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            let first = try await guest.post("/v1/holds", #"{"amount":5}"#)
                .decode(HoldAnswer.self).hold
            server.setup.wall.advance(by: .seconds(1))
            _ = try await guest.post("/v1/holds", #"{"amount":7}"#).decode(HoldAnswer.self)
            storage.fail { $0.contains(.hold(first.id)) ? .failed("a bad page") : nil }
            server.setup.wall.advance(by: .seconds(700))
            let sweeps = storage.sweeps
            try await turn(server)
            #expect(try await guest.balance().held == 5)
            #expect(storage.sweeps == sweeps + 1)

            storage.fail { _ in nil }
            try await turn(server)
            #expect(try await guest.balance().held == 0)
        }
    }

    @Test func `more expired holds than one batch are released in one run`() async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            for _ in 1...100 { _ = try await guest.post("/v1/holds", #"{"amount":1}"#) }
            #expect(try await guest.balance().held == 100)
            server.setup.wall.advance(by: .seconds(700))
            try await turn(server)
            #expect(try await guest.balance().held == 0)
            #expect(try await storage.verifyLedger().differences.isEmpty)
        }
    }

    @Test func `a dead process's call that cannot be released does not prevent the start`()
        async throws
    {
        let storage = FaultyStorage()
        let setup = {
            var setup = LiveServer.Setup()
            setup.storage = storage
            return setup
        }()
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let authority = Authority(storage: storage, keys: setup.keys)
            for key in ["a", "b"] {
                let terms = CallTerms(
                    operation: Identifier(at: Timestamp(millisecondsSince1970: 0)),
                    function: "echo",
                    hold: 1,
                    life: .seconds(600)
                )
                _ = try await authority.start(
                    guest.account.id,
                    Submission(key: key, fingerprint: Fingerprint(key), content: .success(terms))
                )
            }
            storage.fail { keys in
                let isOfA = keys.contains(.operation(guest.account.id, key: "a"))
                return isOfA && keys.count == 3 ? .failed("a bad page") : nil
            }
        }
        try await LiveServer.with(setup) { _ in
            let running = try await storage.runningOperations(after: nil, limit: 10)
            #expect(running.map(\.key) == ["a"])
        }
    }
}
