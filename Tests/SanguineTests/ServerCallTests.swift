import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Server calls", .bounded)
struct ServerCallTests {
    private func call(
        _ network: ScriptedTransport,
        _ authorizer: any Authorizer
    ) -> ServerCall {
        ServerCall(
            server: URL(string: "http://sanguine.test"),
            exchange: Exchange(transport: network, clock: ManualWallClock()),
            authorizer: authorizer
        )
    }

    private let expired = ScriptedTransport.Answer.json(
        Problem(.tokenExpired, "Refresh the token."),
        status: 401
    )

    @Test func `an expired token is refreshed and the call resent once`() async throws {
        let network = ScriptedTransport()
        let user = TestUser()
        network.script(expired, .json([1], headers: ["Sanguine-Head": "412"]))
        let answer = try await call(network, user).get("/v1/numbers", as: [Int].self)

        #expect(answer.value == [1])
        #expect(answer.head == 412)
        #expect(
            network.requests.map { $0.headers["Authorization"] }
                == ["Bearer token-0-0", "Bearer token-0-1"]
        )
    }

    @Test func `a second rejection of a token is thrown to the caller`() async throws {
        let network = ScriptedTransport()
        let user = TestUser()
        network.script(expired, expired, .json([1]))
        let error = await #expect(throws: SanguineError.self) {
            try await call(network, user).get("/v1/numbers", as: [Int].self)
        }

        #expect(error?.code == "token_expired")
        #expect(user.rejectedCount == 1)
    }

    @Test func `a user's call is never sent with another user's token`() async throws {
        let network = ScriptedTransport()
        let user = TestUser()
        _ = user.end(.userChanged)

        await #expect(throws: SanguineError.userChanged) {
            try await call(network, user).get("/v1/numbers", as: [Int].self)
        }
        #expect(network.requests.isEmpty)
    }

    @Test func `a token is sent only to its own server`() async throws {
        let network = ScriptedTransport()
        let refusal = await #expect(throws: SanguineError.self) {
            try await call(network, TestUser()).get("http://other.test/x", as: [Int].self)
        }
        #expect(refusal?.code == "invalid_declaration")
        #expect(refusal?.description.contains("other.test") == true)
        #expect(refusal?.description.contains("Configuration") == false)
        #expect(network.requests.isEmpty)
    }

    @Test func `a problem keeps its members and gets the retry time`() async throws {
        let network = ScriptedTransport()
        var problem = Problem(.insufficientTokens, "Buy some.")
        problem.available = 2
        network.script(.json(problem, status: 402, headers: ["Retry-After": "7"]))
        let error = await #expect(throws: SanguineError.self) {
            try await call(network, TestUser()).get("/v1/numbers", as: [Int].self)
        }

        problem.retryAfter = 7
        #expect(error == .problem(problem))
        #expect(error?.retryAfter == .seconds(7))
    }

    @Test func `a body is sent as JSON`() async throws {
        let network = ScriptedTransport()
        network.script(.json([1]))
        let body = Data("{}".utf8)
        _ = try await call(network, TestUser())
            .call(
                "POST",
                "/v1/spend",
                headers: ["Idempotency-Key": "k"],
                json: body,
                as: [Int].self
            )

        let request = try #require(network.requests.first)
        #expect(request.method == "POST")
        #expect(request.body == body)
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.headers["Idempotency-Key"] == "k")
    }
}
