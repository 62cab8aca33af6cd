import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Reads of personal data by administrators.
@Suite("Reading by administrators", .bounded)
struct AdminReadingTests {
    private func get(
        _ path: String,
        as token: AdminToken? = nil,
        on server: LiveServer
    ) async throws -> Reply {
        let token = token ?? server.setup.adminToken
        return try await server.send(
            "GET",
            "/admin/v1/\(path)",
            headers: ["Authorization": "Bearer \(token.reveal())"],
            toAdmin: true
        )
    }

    private func log(on server: LiveServer) async throws -> [Authority.AuditEntry] {
        try await get("audit", on: server).decode(ListPage<Authority.AuditEntry>.self).items
    }

    @Test func `an export of the ledger needs an owner and a reason, and is recorded`()
        async throws
    {
        var setup = LiveServer.Setup()
        let others = [AdminRole.read, .support].map { AdminToken(owner: "\($0)", role: $0) }
        setup.adminTokens = others
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest()
            let path = "ledger/export?reason=books"
            for token in others {
                let refused = try await get(path, as: token, on: server)
                #expect(refused.code == "role_missing")
                #expect(!refused.body.contains(guest.account.id.description))
            }
            let unreasoned = try await get("ledger/export", on: server)
            #expect(unreasoned.code == "malformed_request")
            let refusals = try await log(on: server)
            #expect(refusals.map(\.outcome) == ["role_missing", "role_missing"])
            #expect(refusals.map(\.action) == ["ledger.export", "ledger.export"])

            let exported = try await get(path, on: server)
            #expect(exported.body.contains(guest.account.id.description))
            let entry = try #require(try await log(on: server).first)
            #expect(entry.action == "ledger.export" && entry.reason == "books")
            #expect(entry.actor == "owner" && entry.account == nil)
        }
    }

    @Test func `each read of accounts is recorded, without the search terms`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let id = guest.account.id
            for path in [
                "accounts/\(id)?reason=ticket", "accounts?deviceId=\(guest.device)",
                "accounts?email=ana@example.org", "accounts?kind=guest",
            ] {
                _ = try await get(path, on: server)
            }
            let entries = try await log(on: server)
            #expect(
                entries.map(\.action) == [
                    "account.list", "account.find", "account.find", "account.show",
                ]
            )
            #expect(entries.map(\.account) == [nil, nil, id, id])
            #expect(entries.map(\.reason) == ["", "", "", "ticket"])
        }
    }

    @Test func `nothing is exported if it cannot be recorded`() async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            storage.fail { $0.contains(.lastAudit) ? .full("the disk") : nil }
            for path in ["ledger/export?reason=books", "accounts/\(guest.account.id)"] {
                let reply = try await get(path, on: server)
                #expect(reply.code == "overloaded")
                #expect(!reply.body.contains(guest.account.id.description))
            }
        }
    }
}
