import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The removal of large accounts by the periodic work.
@Suite("Removal in turns", .bounded)
struct RemovalTurnTests {
    private func turn(_ server: LiveServer) async throws {
        try await server.setup.delay.waitForSleepers(1)
        server.setup.delay.advance(by: Housekeeping.interval)
        try await server.setup.delay.waitForSleepers(1)
    }

    /// Writes private notes and public posts.
    private func fill(_ guest: Guest, notes: Int, posts: Int) async throws {
        let records =
            (0..<notes).map { ("notes", "n\($0)") } + (0..<posts).map { ("posts", "p\($0)") }
        for start in stride(from: 0, to: records.count, by: 100) {
            let operations = records[start..<min(start + 100, records.count)].enumerated().map {
                index,
                record in
                """
                {"id":"\(Identifier(at: guest.server.setup.wall.now()))","sequence":\
                \(start + index + 1),"lane":"a","mutator":"record.create","arguments":\
                {"collection":"\(record.0)","id":"\(record.1)","fields":{"text":"private"}}}
                """
            }
            let body = """
                {"device":"\(guest.device)","operations":[\(operations.joined(separator: ","))]}
                """
            let reply = try await guest.send("POST", "/v1/sync/push", body)
            #expect(reply.status == 200)
        }
    }

    private func removed(_ guest: Guest) async throws -> Int {
        try await guest.server.authority.removalStatus(guest.account.id)?.removed ?? 0
    }

    private func isDone(_ guest: Guest) async throws -> Bool {
        try await guest.server.authority.removalStatus(guest.account.id)?.state == .done
    }

    /// The largest number of rows that one turn removes.
    private static let turnRows = Housekeeping.removalSteps * 100

    @Test func `a turn removes a bounded number of rows, and the next one continues`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            try await fill(guest, notes: 3_000, posts: 300)
            #expect(try await guest.send("DELETE", "/v1/account", "{}").status == 200)
            server.setup.wall.advance(by: .seconds(61))
            var last = try await removed(guest)
            #expect(last <= 16 * 100)
            var turns = 0
            while try await !isDone(guest) {
                turns += 1
                try #require(turns < 60)
                server.setup.wall.advance(by: .seconds(1))
                try await turn(server)
                let now = try await removed(guest)
                #expect(now - last <= Self.turnRows)
                last = now
            }
            #expect(last >= 3_300)
        }
    }

    @Test func `a large account does not delay the removal of others`() async throws {
        try await LiveServer.with { server in
            let large = try await server.guest()
            try await fill(large, notes: 5_000, posts: 0)
            let small = try await server.guest()
            let note = AuditNote(
                actor: "a",
                role: "owner",
                action: "account.delete",
                account: nil,
                reason: "asked"
            )
            for guest in [large, small] {
                _ = try await server.authority.deleteAccount(guest.account.id, by: note)
            }
            server.setup.wall.advance(by: .seconds(61))
            try await turn(server)
            server.setup.wall.advance(by: .seconds(6))
            try await turn(server)
            #expect(try await isDone(small))
            #expect(try await !isDone(large))
        }
    }

    @Test func `a removal continues after a restart`() async throws {
        let setup = LiveServer.Setup()
        let guest = try await started(setup) { server in
            let guest = try await server.guest()
            try await fill(guest, notes: 4_000, posts: 0)
            #expect(try await guest.send("DELETE", "/v1/account", "{}").status == 200)
            #expect(try await !isDone(guest))
            return guest.account.id
        }
        setup.wall.advance(by: .seconds(61))
        _ = try await started(setup) { server in
            for _ in 0..<60 {
                guard try await server.authority.removalStatus(guest)?.state != .done else { break }
                setup.wall.advance(by: .seconds(1))
                try await turn(server)
            }
            #expect(try await server.authority.removalStatus(guest)?.state == .done)
            return guest
        }
    }

    private func started(
        _ setup: LiveServer.Setup,
        _ body: (LiveServer) async throws -> Identifier
    ) async throws -> Identifier {
        var result: Identifier?
        try await LiveServer.with(setup) { server in result = try await body(server) }
        return try #require(result)
    }
}
