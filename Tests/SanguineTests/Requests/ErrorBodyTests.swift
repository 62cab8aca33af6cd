import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Errors that an app's own backend reports in its own format.
@Suite("Error bodies", .bounded)
struct ErrorBodyTests {
    private struct Body: Codable, Sendable {
        struct Reason: Codable, Sendable {
            var code: String
            var message: String
            var again: Bool?
        }

        var error: Reason
    }

    private static func body(_ code: String, again: Bool? = nil) -> Body {
        Body(error: .init(code: code, message: "Look at \(code).", again: again))
    }

    private static func read(_ response: TransportResponse) -> ErrorBody? {
        guard let body = try? JSONDecoder().decode(Body.self, from: response.body) else {
            return nil
        }
        return ErrorBody(
            code: body.error.code,
            detail: body.error.message,
            errorClass: body.error.again.map { $0 ? .retryable : .refused }
        )
    }

    private static let soon = Policy.alwaysStale.retry(
        RetrySchedule(attempts: 3, base: .milliseconds(1))
    )

    /// Returns the error of a read and the number of attempts.
    private static func failure(
        _ answers: ScriptedTransport.Answer...,
        base: String? = "http://songs.test"
    ) async throws -> (error: SanguineError?, requests: Int) {
        let test = try TestClient { configuration in
            configuration.baseURL = base.flatMap { URL(string: $0) }
            configuration.errorBody = Self.read
            configuration.delay = ContinuousClock()
        }
        defer { test.client.close() }
        for answer in answers { test.network.script(answer) }
        let query = ValueQuery<Profile>("own", policy: soon) { try await $0.get("profile") }
        do throws(SanguineError) {
            _ = try await test.client.value(of: query)
            return (nil, test.network.requests.count)
        } catch {
            return (error, test.network.requests.count)
        }
    }

    @Test func `an error has a code, a detail and a status`() async throws {
        let (error, requests) = try await Self.failure(.json(Self.body("song_locked"), status: 423))
        guard case .problem(let problem) = error else {
            Issue.record("\(String(describing: error))")
            return
        }

        #expect(error?.code == "song_locked")
        #expect(problem.status == 423)
        #expect(problem.detail == "Look at song_locked.")
        #expect(error?.errorClass == .refused)
        #expect(requests == 1)
    }

    @Test func `a retryable error is retried regardless of its status`() async throws {
        let (error, requests) = try await Self.failure(
            .json(Self.body("warming_up", again: true), status: 422),
            .json(Profile(name: "Ada"))
        )

        #expect(error == nil)
        #expect(requests == 2)
    }

    @Test func `an error that is not retryable is not retried`() async throws {
        let (error, requests) = try await Self.failure(
            .json(Self.body("broken", again: false), status: 500)
        )

        #expect(error?.errorClass == .refused)
        #expect(requests == 1)
    }

    @Test func `a body that errorBody does not know is read as usual`() async throws {
        let problem = Problem(ProblemCode(rawValue: "gone_away"), "It has left.")
        let (error, _) = try await Self.failure(.json(problem, status: 410))
        let (bare, _) = try await Self.failure(.status(404))

        #expect(error?.code == "gone_away")
        #expect(error?.errorClass == .gone)
        #expect(bare?.code == "http_404")
    }

    @Test func `errorBody is not called for the Sanguine server`() async throws {
        let (error, _) = try await Self.failure(
            .json(Self.body("song_locked"), status: 423),
            base: nil
        )

        #expect(error?.code == "http_423")
    }

    @Test func `Retry-After is honored in addition`() async throws {
        let answer = ScriptedTransport.Answer.json(
            Self.body("slow_down"),
            status: 429,
            headers: ["Retry-After": "600"]
        )
        let (error, requests) = try await Self.failure(answer)

        #expect(error?.retryAfter == .seconds(600))
        #expect(requests == 1)
    }

    // MARK: - The answer

    @Test func `the error contains the answer, up to a limit`() async throws {
        let long = Data(repeating: 0x61, count: ClientLimits.errorBodyBytes + 1)
        let (error, _) = try await Self.failure(
            .respond(TransportResponse(status: 404, headers: ["X-Trace": "7"], body: long))
        )
        let response = try #require(error?.response)

        #expect(response.status == 404)
        #expect(response.header("x-trace") == "7")
        #expect(response.body == long.prefix(ClientLimits.errorBodyBytes))
        #expect(error?.description.contains("aaaa") == false)
    }

    @Test func `errors are equal regardless of their answers`() async throws {
        let (first, _) = try await Self.failure(.status(404, headers: ["X-Trace": "1"]))
        let (second, _) = try await Self.failure(.status(404, headers: ["X-Trace": "2"]))

        #expect(first == second)
        #expect(first?.response != second?.response)
    }

    // MARK: - Mutations

    private static func outcome(
        _ answer: ScriptedTransport.Answer
    ) async throws -> (outcome: Receipt.Outcome, writes: Int) {
        let fixture = SongFixture()
        fixture.server.fail(answer)
        let client = try fixture.client { configuration in
            configuration.errorBody = Self.read
            configuration.delay = ContinuousClock()
        }
        defer { client.close() }
        let receipt = try client.perform(LikeSong(song: "a"))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }
        return (outcome, fixture.writes.count)
    }

    @Test func `a mutation with a retryable error is resent`() async throws {
        let busy = try await Self.outcome(.json(Self.body("busy", again: true), status: 409))

        #expect(busy.outcome == .applied)
        #expect(busy.writes == 2)
    }

    @Test func `a mutation with an error that is not retryable is refused`() async throws {
        let (outcome, writes) = try await Self.outcome(
            .json(Self.body("never", again: false), status: 503)
        )
        guard case .refused(let problem) = outcome else {
            Issue.record("\(outcome)")
            return
        }

        #expect(problem.code.rawValue == "never")
        #expect(writes == 1)
    }

    @Test func `the answer of a refusal is available but not stored`() async throws {
        let fixture = SongFixture(onDisk: true)
        let folder = try #require(fixture.folder)
        let answer = TransportResponse(status: 422, body: Data("personal".utf8))
        fixture.server.fail(.respond(answer))
        let client = try fixture.client()
        let outcome = try await client.perform(LikeSong(song: "a")).outcome
        guard case .refused(let problem) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(problem.response?.body == answer.body)
        client.close()

        #expect(try folder.contains(LikeSong.name))
        #expect(try !folder.contains("personal"))
    }
}
