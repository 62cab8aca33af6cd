import Foundation
import SanguineModel
import TestSupport
import Testing

@Suite("Problem", .bounded)
struct ProblemTests {
    /// Every code with its specified status.
    static let statuses: [(ProblemCode, Int)] = [
        (.malformedBody, 400), (.malformedRequest, 400), (.idempotencyKeyMissing, 400),
        (.idempotencyKeyInvalid, 400), (.bodyTooLarge, 413), (.unsupportedMediaType, 415),
        (.unauthenticated, 401), (.tokenExpired, 401), (.sessionEnded, 401),
        (.deviceSecretMismatch, 401), (.refreshInvalid, 401), (.refreshReused, 401),
        (.insufficientTokens, 402), (.quotaExhausted, 402), (.identityMismatch, 403),
        (.notFound, 404), (.methodNotAllowed, 405), (.operationInProgress, 409),
        (.holdSettled, 409),
        (.idempotencyMismatch, 422), (.idempotencyExpired, 422), (.invalidContent, 422),
        (.upstreamRefused, 422),
        (.rateLimited, 429), (.internalFault, 500), (.upstreamFailed, 502),
        (.upstreamMissing, 503), (.overloaded, 503), (.upstreamTimeout, 504),
    ]

    @Test(arguments: statuses)
    func `each code has its status, a title and a type`(code: ProblemCode, status: Int) {
        let problem = Problem(code, "Do this next.")

        #expect(problem.status == status)
        #expect(problem.title.hasSuffix("."))
        #expect(code == .internalFault || problem.title != ProblemCode.internalFault.meaning.title)
        #expect(problem.type == "urn:sanguine:problem:\(code.rawValue)")
        #expect(problem.description.contains("Do this next."))
    }

    @Test func `each code has a different title`() {
        #expect(Set(Self.statuses.map(\.0.meaning.title)).count == Self.statuses.count)
    }

    @Test func `the code is its Swift name in snake case`() {
        #expect(ProblemCode.insufficientTokens.rawValue == "insufficient_tokens")
        #expect(ProblemCode.quotaExhausted.rawValue == "quota_exhausted")
        #expect(
            Self.statuses.allSatisfy { $0.0.rawValue.wholeMatch(of: #/[a-z]+(_[a-z]+)*/#) != nil }
        )
    }

    @Test func `a code of a newer server is decoded with its status`() throws {
        let json = """
            {"type":"urn:sanguine:problem:too_early","title":"It is too early.","status":425,\
            "detail":"Come back.","code":"too_early","moon":"full"}
            """
        let problem = try JSONDecoder().decode(Problem.self, from: Data(json.utf8))

        #expect(problem.code == ProblemCode(rawValue: "too_early"))
        #expect(problem.status == 425)
        #expect(problem.code.meaning.status == 422)
    }

    @Test func `an app's own code is a refusal and not a server error`() {
        let problem = Problem(ProblemCode(rawValue: "song_locked"), "Ask its owner.")

        #expect(problem.status == 422)
        #expect(problem.description == "The operation was refused. Ask its owner. [song_locked]")
        #expect(Refusal(problem.code, problem.detail).problem == problem)
    }

    @Test(arguments: [(404, "There is no such resource."), (503, "The server is overloaded.")])
    func `a code of an HTTP status has that status`(status: Int, title: String) {
        let problem = Problem(ProblemCode(rawValue: "http_\(status)"), "")

        #expect(problem.status == status)
        #expect(problem.title == title)
        #expect(problem.description == "\(title) [http_\(status)]")
    }

    @Test(arguments: ["http_", "http_4", "http_abc", "http_40400", "http_099"])
    func `a code that only resembles a status is an app's own`(code: String) {
        #expect(ProblemCode(rawValue: code).meaning.status == 422)
    }

    @Test func `a problem with only a few members is decoded`() throws {
        let json = Data(#"{"code":"not_found","instance":"/songs/1"}"#.utf8)
        let problem = try JSONDecoder().decode(Problem.self, from: json)

        #expect(problem.code == .notFound && problem.status == 404)
        #expect(problem.title == ProblemCode.notFound.meaning.title)
        #expect(problem.type == "about:blank")
    }

    @Test(arguments: ["[]", "{}", #"{"error":"no"}"#, "null"])
    func `JSON without any member of a problem is not a problem`(json: String) {
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(Problem.self, from: Data(json.utf8))
        }
    }

    @Test(arguments: [[], ["premium"]] as [[String]])
    func `the refusal of a used quota tells when to return and what lifts it`(lifts: [String]) {
        let now = Timestamp(millisecondsSince1970: 1_790_000_000_000)
        let quota = Quota(
            name: "readings",
            limit: 3,
            used: 3,
            resetsAt: now + .milliseconds(61_500),
            unlimited: false,
            lifts: lifts
        )
        let problem = Problem.exhausted(quota, at: now)
        #expect(problem.code == .quotaExhausted && problem.status == 402)
        #expect(problem.resetsAt == quota.resetsAt && problem.retryAfter == 62)
        #expect(problem.lifts == lifts)
        #expect(problem.detail.contains("a plan") == !lifts.isEmpty)
        #expect(Problem.exhausted(quota, at: quota.resetsAt + .seconds(9)).retryAfter == 1)
    }
}
