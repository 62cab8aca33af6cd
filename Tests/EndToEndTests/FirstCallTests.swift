import NIOHTTP1
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// A device's first calls, all at once.
    @Suite("First calls", .bounded(.seconds(120)))
    struct FirstCallTests {
        @Test func `a thousand concurrent first calls of a device create one account`() async throws
        {
            try await LocalServer.with { server in
                let answers = try await concurrently(1_000) { _ in
                    try await server.api.signIn("the-one-and-only-device")
                }
                #expect(answers.count { $0.status == 201 } == 1)
                #expect(answers.count { $0.status == 200 } == 999)
                let signedIn = try answers.map { try $0.decode(SignedIn.self) }
                #expect(Set(signedIn.map(\.account.id)).count == 1)

                // Every caller is signed in, whether it created the account or not.
                let tokens = signedIn.map(\.session.accessToken)
                let statuses = try await concurrently(tokens.count) { number in
                    try await server.api.send(.GET, "/v1/balance", token: tokens[number]).status
                }
                #expect(statuses.allSatisfy { $0 == 200 })

                let report = try await server.audit()
                #expect(report.accounts == 1)
                #expect(report.transfers == 1, "The welcome grant was given more than once.")
                #expect(report.differences.isEmpty)
            }
        }

        @Test func `a thousand first reads of a client create one account with one call`()
            async throws
        {
            try await LocalServer.with { server in
                let client = try server.client()
                defer { client.close() }
                let balances = try await concurrently(1_000) { _ in
                    try await client.value(of: .balance)
                }
                #expect(balances.allSatisfy { $0.available == 100 && $0.held == 0 })
                #expect(client.accountId != nil)
                #expect(try await server.audit().accounts == 1)
                #expect(try server.requests("POST", "/v1/accounts/guest") == 1)
                #expect(try server.requests("GET", "/v1/balance") == 1)
            }
        }

        @Test func `a device with another secret gets neither account nor session`() async throws {
            try await LocalServer.with { server in
                _ = try await server.api.guest("a-device-with-a-secret")
                let thief = GuestRequest(
                    deviceId: "a-device-with-a-secret",
                    deviceSecret: "B" + String(repeating: "A", count: 42)
                )
                let answer = try await server.api.send(.POST, "/v1/accounts/guest", json: thief)
                #expect(answer.status == 401)
                #expect(answer.code == .deviceSecretMismatch)
                #expect(try await server.audit().accounts == 1)
            }
        }
    }
}
