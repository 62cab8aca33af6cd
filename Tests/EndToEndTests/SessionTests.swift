import NIOHTTP1
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Tokens that are refreshed concurrently, lost or stolen (trap 20), and another account's
    /// identity.
    @Suite("Sessions", .bounded(.seconds(120)))
    struct SessionTests {
        @Test func `two concurrent refreshes keep both callers signed in`() async throws {
            try await LocalServer.with { server in
                let api = server.api
                let guest = try await api.guest()
                let both = try await concurrently(2) { _ in
                    try await api.refresh(guest.session.refreshToken)
                }
                #expect(both.allSatisfy { $0.status == 200 })
                let sessions = try both.map { try $0.decode(Refreshed.self).session }
                #expect(Set(sessions.map(\.refreshToken)).count == 1)

                // Each caller continues with its own response, and both refresh concurrently again.
                let next = try await concurrently(2) { number in
                    let token = sessions[number].accessToken
                    let balance = try await api.send(.GET, "/v1/balance", token: token)
                    let refreshed = try await api.refresh(sessions[number].refreshToken)
                    return [balance.status, refreshed.status]
                }
                #expect(next == [[200, 200], [200, 200]])
            }
        }

        @Test func `an old token used after its successor ends the session family`()
            async throws
        {
            try await LocalServer.with { server in
                let api = server.api
                let guest = try await api.guest()
                let other = try await api.guest()
                let first = guest.session.refreshToken
                let second = try await api.refresh(first).decode(Refreshed.self).session
                let third = try await api.refresh(second.refreshToken)
                    .decode(Refreshed.self).session

                let reused = try await api.refresh(first)
                #expect(reused.status == 401)
                #expect(reused.code == .refreshReused)
                for token in [guest.token, second.accessToken, third.accessToken] {
                    let answer = try await api.send(.GET, "/v1/balance", token: token)
                    #expect(answer.status == 401)
                    #expect(answer.code == .sessionEnded)
                }
                #expect(try await api.refresh(third.refreshToken).status == 401)

                // The device's other session belongs to another family.
                let untouched = try await api.send(.GET, "/v1/balance", token: other.token)
                #expect(untouched.status == 200)
                #expect(try await api.refresh(other.session.refreshToken).status == 200)
            }
        }

        @Test func `a lost response is repeated for a minute and no longer`() async throws {
            let clock = ManualWallClock()
            try await LocalServer.with(clock: clock) { server in
                let api = server.api
                let first = try await api.guest().session.refreshToken
                let lost = try await api.refresh(first).decode(Refreshed.self).session
                clock.advance(by: .seconds(60))
                let again = try await api.refresh(first).decode(Refreshed.self).session
                #expect(again.refreshToken == lost.refreshToken)
                let balance = try await api.send(.GET, "/v1/balance", token: again.accessToken)
                #expect(balance.status == 200)

                clock.advance(by: .milliseconds(1))
                let late = try await api.refresh(first)
                #expect(late.status == 401)
                #expect(late.code == .refreshReused)
                let ended = try await api.send(.GET, "/v1/balance", token: again.accessToken)
                #expect(ended.code == .sessionEnded)
            }
        }

        @Test func `a client with an expired token refreshes once for all waiting callers`()
            async throws
        {
            let clock = ManualWallClock()
            try await LocalServer.with(clock: clock) { server in
                let client = try server.client(clock: clock)
                defer { client.close() }
                _ = try await client.value(of: .balance)
                let account = client.accountId
                clock.advance(by: .seconds(16 * 60))
                _ = try await concurrently(60) { number in
                    switch number % 3 {
                    case 0: _ = try await client.refresh(.quotas)
                    case 1: _ = try await client.refresh(.account)
                    default: try await client.call(Echo(text: "\(number)"))
                    }
                }
                #expect(try server.requests("POST", "/v1/sessions/refresh") == 1)
                #expect(try server.requests("POST", "/v1/accounts/guest") == 1)
                #expect(client.accountId == account)
                #expect(try await client.refresh(.balance).available == 80)
            }
        }

        @Test func `another account's id is refused, and nothing changes`() async throws {
            try await LocalServer.with { server in
                let api = server.api
                let guest = try await api.guest("the-device-of-the-owner")
                let other = try await api.guest("the-device-of-another")
                let claim = [("X-User-Id", other.account.description)]
                let read = try await api.send(
                    .GET,
                    "/v1/balance",
                    token: guest.token,
                    headers: claim
                )
                let spend = try await api.send(
                    .POST,
                    "/v1/spend",
                    token: guest.token,
                    key: "a",
                    headers: claim,
                    json: SpendRequest(amount: 1, reason: "tea")
                )
                let call = try await api.send(
                    .POST,
                    "/v1/functions/echo",
                    token: guest.token,
                    key: "b",
                    headers: claim,
                    json: FunctionRequest(input: Echo.Input(text: "tea"))
                )
                for answer in [read, spend, call] {
                    #expect(answer.status == 403)
                    #expect(answer.code == .identityMismatch)
                    #expect(answer.header("Content-Type") == "application/problem+json")
                    #expect(!answer.text.contains(other.account.description))
                    #expect(!answer.text.contains(guest.account.description))
                }
                for one in [guest, other] {
                    #expect(try await api.balance(of: one).available == 100)
                }
                let own = [("X-User-Id", guest.account.description)]
                let allowed = try await api.send(
                    .GET,
                    "/v1/balance",
                    token: guest.token,
                    headers: own
                )
                #expect(allowed.status == 200)
            }
        }
    }
}
