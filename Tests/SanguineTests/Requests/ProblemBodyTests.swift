import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// RFC 9457: every member of a problem is optional.
@Suite("Problem bodies", .bounded)
struct ProblemBodyTests {
    private static let now = Timestamp(millisecondsSince1970: 0)
    private static let request = TransportRequest(url: URL(filePath: "/songs"))

    private static func problem(
        _ status: Int,
        _ body: String,
        type: String? = "application/problem+json"
    ) -> Problem {
        let headers = type.map { ["Content-Type": $0] } ?? [:]
        let response = TransportResponse(status: status, headers: headers, body: Data(body.utf8))
        return Problem(response, to: request, now: now)
    }

    @Test func `a code and a detail suffice`() {
        let problem = Self.problem(409, #"{"code":"song_locked","detail":"Ask its owner."}"#)

        #expect(problem.code.rawValue == "song_locked")
        #expect(problem.detail == "Ask its owner.")
        #expect(problem.status == 409)
        #expect(problem.type == "about:blank")
        #expect(problem.description.contains("Ask its owner. [song_locked]"))
    }

    @Test func `a title without a code is read, and the code names the status`() {
        let problem = Self.problem(403, #"{"title":"The song is not for sale."}"#)

        #expect(problem.title == "The song is not for sale.")
        #expect(problem.code.rawValue == "http_403")
        #expect(problem.detail == "The backend answered with status 403 and no detail.")
    }

    @Test func `the standard's example is read with all its members`() throws {
        let body = """
            {"type":"https://example.com/probs/out-of-credit","title":"You do not have enough \
            credit.","detail":"Your current balance is 30, but that costs 50.",\
            "instance":"/account/12345/msgs/abc","balance":30,\
            "accounts":["/account/12345","/account/67890"]}
            """
        let problem = Self.problem(403, body)

        #expect(problem.type == "https://example.com/probs/out-of-credit")
        #expect(problem.title == "You do not have enough credit.")
        #expect(problem.detail == "Your current balance is 30, but that costs 50.")
        #expect(problem.code.rawValue == "http_403" && problem.status == 403)
        let text = String(decoding: try WireCoding.encode(problem), as: UTF8.self)
        #expect(text.contains(#""instance":"/account/12345/msgs/abc""#))
    }

    @Test func `a member of the wrong type is skipped and the others are read`() {
        let problem = Self.problem(
            422,
            #"{"title":7,"status":"bad","detail":"Shorten it.","code":null,"retryAfter":"soon"}"#
        )

        #expect(problem.detail == "Shorten it.")
        #expect(problem.status == 422 && problem.code.rawValue == "http_422")
        #expect(problem.retryAfter == nil)
    }

    @Test func `the status is that of the answer, regardless of the body`() {
        #expect(Self.problem(503, #"{"status":200,"title":"All is well."}"#).status == 503)
    }

    @Test func `a problem in plain JSON is read too`() {
        let problem = Self.problem(404, #"{"detail":"No such song."}"#, type: "application/json")

        #expect(problem.detail == "No such song.")
    }

    @Test(arguments: [
        "", "no", "[]", "{}", "null", #""title""#, #"{"error":"locked"}"#, #"{"title":null}"#,
        #"{"status":"error","code":7}"#,
    ])
    func `a body without members is reported as not being a problem`(body: String) {
        let problem = Self.problem(409, body, type: "text/plain; charset=utf-8")

        #expect(problem.code.rawValue == "http_409" && problem.status == 409)
        #expect(
            problem.detail
                == (body.isEmpty
                    ? "The backend answered with status 409 and an empty body."
                    : """
                    The backend answered with status 409. Its body, \(body.utf8.count) bytes of \
                    text/plain, is not a problem document (RFC 9457).
                    """)
        )
    }

    @Test func `a body without a content type is reported`() {
        let problem = Self.problem(409, "no", type: nil)

        #expect(
            problem.detail == """
                The backend answered with status 409. Its body, 2 bytes of no named type, is not \
                a problem document (RFC 9457).
                """
        )
    }

    @Test(arguments: [400, 401, 403, 404, 409, 410, 418, 422, 429, 451])
    func `a status in the 400s is not a server fault`(status: Int) {
        for body in ["", "{}", #"{"code":"own"}"#, #"{"detail":"Do this."}"#] {
            let problem = Self.problem(status, body)
            #expect(problem.title.hasSuffix("."), "\(status) \(body)")
            #expect(!problem.title.contains("fault"), "\(status) \(body)")
        }
    }

    @Test(arguments: [500, 501, 502, 503, 504, 507, 599])
    func `a status in the 500s is not a refusal`(status: Int) {
        for body in ["", "{}", #"{"detail":"Do this."}"#] {
            #expect(!Self.problem(status, body).title.contains("refused"), "\(status) \(body)")
        }
    }

    @Test func `a custom code never reports a server fault`() {
        for status in [400, 404, 409, 422, 500, 503] {
            let problem = Self.problem(status, #"{"code":"song_locked"}"#)
            #expect(!problem.description.contains("The server has a fault."), "\(status)")
        }
    }

    @Test func `Retry-After applies if the body names no time`() {
        let response = TransportResponse(
            status: 503,
            headers: ["Retry-After": "7"],
            body: Data(#"{"title":"Closed for a moment."}"#.utf8)
        )

        #expect(Problem(response, to: Self.request, now: Self.now).retryAfter == 7)
    }

    @Test func `a query's error contains the backend's code and detail`() async throws {
        let network = ScriptedTransport { _ in
            .json(["code": "song_locked", "detail": "Ask its owner."], status: 409)
        }
        let client = try TestClient(network: network).client
        defer { client.close() }

        let error = try await within(.seconds(30), "the refusal") {
            await #expect(throws: SanguineError.self) { try await client.value(of: .profile("1")) }
        }
        #expect(error?.code == "song_locked")
        #expect(error?.description.contains("Ask its owner.") == true)
        #expect(error?.errorClass == .refused)
    }
}
