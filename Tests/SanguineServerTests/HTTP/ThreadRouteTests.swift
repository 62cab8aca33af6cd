import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Threads in the export of an account and in its deletion.
@Suite("Threads of an account", .bounded)
struct ThreadRouteTests {
    private struct Talk: FunctionCall {
        struct Input: Codable, Sendable { var q: String }
        typealias Output = String
        static let name = "talk"
        static let rules = FunctionRules(price: .fixed(2), keepsHistory: true)
        var input: Input
    }

    private static func thread(_ number: Int) -> String {
        "0199f3c8-2f6b-7c1e-9a54-00000000000\(number)"
    }

    private func ask(_ guest: Guest, _ q: String, in thread: String) async throws -> Reply {
        let body = #"{"input":{"q":"\#(q)"},"thread":"\#(thread)"}"#
        return try await guest.post("/v1/functions/talk", body)
    }

    private func messages(_ guest: Guest) async throws -> [JSONValue] {
        let path = "/v1/collections/%24messages/records?order=order"
        let reply = try await guest.get(path)
        guard case .array(let items)? = try reply.json["items"] else { return [] }
        return items.compactMap { $0["value"] }
    }

    private func removeAll(_ guest: Guest) async throws {
        var walk = RemovalWalk()
        let authority = guest.server.authority
        while try await authority.removeSome(of: guest.account.id, &walk) == .removed {}
    }

    @Test func `an export has the threads and messages of its account, and of no other`()
        async throws
    {
        try await LiveServer.with {
            $0.functions = [ServerFunction(Talk.self) { "an answer to \($0.input.q)" }]
        } _: { server in
            let (guest, other) = (try await server.guest(), try await server.guest())
            for number in 1...2 {
                let reply = try await ask(guest, "mine \(number)", in: Self.thread(number))
                #expect(reply.status == 200)
            }
            _ = try await ask(other, "theirs", in: Self.thread(1))
            let export = try await guest.get("/v1/account/export")
            #expect(export.status == 200)
            let lines = export.body.split(separator: "\n")
            for id in [Self.thread(1), Self.thread(2)] {
                #expect(lines.contains { $0.contains("$threads") && $0.contains(id) })
            }
            for text in ["mine 1", "mine 2", "an answer to mine 1", "an answer to mine 2"] {
                let found = lines.count { $0.contains("$messages") && $0.contains(#""\#(text)""#) }
                #expect(found == 1, "\(text)")
            }
            #expect(!export.body.contains("theirs"))
        }
    }

    @Test func `a deletion leaves nothing of threads, not even of a call that is running`()
        async throws
    {
        let gate = WatchedState(false)
        try await LiveServer.with {
            $0.functions = [
                ServerFunction(Talk.self) { call in
                    if call.input.q == "slow" {
                        try await gate.wait(for: "the end of a deletion") { $0 }
                    }
                    return "an answer"
                }
            ]
        } _: { server in
            let (guest, other) = (try await server.guest(), try await server.guest())
            _ = try await ask(guest, "quick", in: Self.thread(1))
            _ = try await ask(other, "quick", in: Self.thread(1))
            async let running = ask(guest, "slow", in: Self.thread(1))
            try await eventually("an answer is being made") {
                try await messages(guest).last?["state"] == "making"
            }
            #expect(try await guest.send("DELETE", "/v1/account", "{}").status == 200)
            gate.withLock { $0 = true }
            _ = try await running
            server.setup.wall.advance(by: .seconds(61))
            try await eventually("the account is removed") {
                try await removeAll(guest)
                let status = try await server.authority.removalStatus(guest.account.id)
                return status?.state == .done
            }
            for kind in AccountRowsQuery.Kind.allCases {
                let query = AccountRowsQuery(kind, of: guest.account.id, limit: 9)
                #expect(try await server.setup.storage.rows(query) == [], "\(kind)")
            }
            #expect(try await server.authority.verifyLedger().differences == [])
            #expect(try await messages(other).count == 2)
        }
    }
}
