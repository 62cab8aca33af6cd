import Foundation
import HTTPTypes
import Hummingbird
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("openapi.json", .bounded)
struct OpenAPITests {
    /// A method and a path template, which the router and the document have in common.
    private struct Operation: Hashable, CustomStringConvertible {
        let method: String
        let path: String

        var description: String { "\(method) \(path)" }
    }

    /// Paths of calls that change nothing in the account or carry their own key.
    private static let unkeyed = [
        "/v1/accounts/merge", "/v1/accounts/merge/preview",
        "/v1/accounts/guest", "/v1/accounts/identity", "/v1/sessions/refresh", "/v1/sessions/codes",
        "/v1/sessions/codes/redeem", "/v1/live/tickets", "/v1/sync/push",
        "/admin/session", "/v1/chat/completions", "/v1/embeddings", "/v1/blobs",
        "/v1/uploads", "/v1/uploads/{id}",
        "/v1/accounts/upgrade", "/v1/accounts/verify", "/v1/accounts/password/reset",
        "/v1/accounts/password/reset/verify", "/v1/account/email", "/v1/account/email/verify",
        "/v1/sessions",
        "/v1/purchases/appStore/notifications",
    ]

    private let document: JSONValue

    init() throws {
        let bytes = Data(PackageResources.openapi_json)
        document = try JSONDecoder().decode(JSONValue.self, from: bytes)
    }

    private func members(_ value: JSONValue?) -> [String: JSONValue] {
        guard case .object(let members) = value else { return [:] }
        return members
    }

    private func elements(_ value: JSONValue?) -> [JSONValue] {
        guard case .array(let elements) = value else { return [] }
        return elements
    }

    /// The described operations, either of the admin port or all others.
    private func described(isAdmin: Bool) -> Set<Operation> {
        var operations: Set<Operation> = []
        for (path, item) in members(document["paths"]) {
            for (method, operation) in members(item)
            where elements(operation["tags"]).contains("Admin") == isAdmin {
                operations.insert(Operation(method: method.uppercased(), path: path))
            }
        }
        return operations
    }

    private func served(by router: Router<ServerContext>) -> Set<Operation> {
        let operations = router.routes
            // The document does not list HEAD, which responds as GET does.
            .filter { $0.method != .head }
            .map { Operation(method: $0.method.rawValue, path: $0.path.description) }
        return Set(operations)
    }

    @Test func `the document describes exactly the served operations`() async throws {
        let server = try await LiveServer.Setup().server()
        let routes = served(by: server.publicRouter(server.functionRunner(Upstreams([]))))
        #expect(routes == described(isAdmin: false))
        #expect(routes.count > 15)
        let admin = served(by: server.adminRouter())
        // Health is on both ports.
        let both = routes.intersection(admin).map(\.path).sorted()
        #expect(both == ["/health/live", "/health/ready"])
        #expect(admin.subtracting(routes) == described(isAdmin: true))
        #expect(admin.count > 2)
    }

    @Test func `an operation of the admin port names that port's server`() {
        for (path, item) in members(document["paths"]) {
            for (method, operation) in members(item) {
                let isAdmin = elements(operation["tags"]).contains("Admin")
                #expect((operation["servers"] != nil) == isAdmin, "\(method) \(path)")
            }
        }
    }

    @Test func `the document describes exactly the problem codes, with their status`() throws {
        let declared = try ProblemCode.declared()
        #expect(declared.count >= 28)
        let schema = document["components"]?["schemas"]?["ProblemCode"]
        let codes = Set(elements(schema?["enum"]).compactMap(\.string))
        #expect(codes == Set(declared.map(\.rawValue)))
        for code in declared {
            let description = schema?["description"]?.string ?? ""
            #expect(
                description.contains("`\(code.rawValue)` (\(code.meaning.status))"),
                "\(code.rawValue)"
            )
        }
    }

    @Test func `the document describes exactly the codes of an unready server`() {
        let schema = document["components"]?["schemas"]?["NotReady"]?["properties"]?["code"]
        let codes = elements(schema?["enum"]).compactMap(\.string)
        #expect(codes == NotReady.allCases.map(\.rawValue))
    }

    /// The code-formatted text of the page that matches the pattern.
    private func page(_ pattern: some RegexComponent<(Substring, Substring)>) throws -> [String] {
        let file = URL(filePath: #filePath).appending(path: "../../../../Documentation/Protocol.md")
        let text = try String(contentsOf: file.standardizedFileURL, encoding: .utf8)
        return text.matches(of: pattern).map { String($0.output.1) }
    }

    @Test func `the protocol page lists each call of the document once`() throws {
        let calls = try page(#/(?m)^\| `([A-Z]+ \/[^`]*)` \|/#)
        let operations = described(isAdmin: false).union(described(isAdmin: true))
        #expect(calls.sorted() == operations.map(\.description).sorted())
    }

    @Test func `the protocol page lists each code of the document once with its status`() throws {
        let codes = try page(#/(?m)^\| (`[a-z_]+` \| [0-9]{3}) \|/#)
        let declared = try ProblemCode.declared().map { "`\($0.rawValue)` | \($0.meaning.status)" }
        #expect(codes.sorted() == declared.sorted())
        let states = try page(#/(?m)^\| `([a-z_]+)` \| [^|`0-9][^|]*\|$/#)
        for code in NotReady.allCases {
            #expect(states.contains(code.rawValue), "\(code.rawValue)")
        }
    }

    @Test func `the protocol page names every push status and the members of a set`() throws {
        let names = try Set(page(#/`([A-Za-z.]+)`/#))
        let statuses = document["components"]?["schemas"]?["PushResult"]?["properties"]?["status"]
        let expected = elements(statuses?["enum"]).compactMap(\.string)
        #expect(expected.count == 4)
        #expect(names.isSuperset(of: expected + ["record.set", "fields", "from"]))
    }

    @Test func `every change takes a key, and every operation has an id and a summary`() {
        for (path, item) in members(document["paths"]) {
            for (method, operation) in members(item) {
                let name = "\(method) \(path)"
                #expect(operation["operationId"]?.string != nil, "\(name)")
                #expect(operation["summary"]?.string != nil, "\(name)")
                let parameters = elements(operation["parameters"]).compactMap { $0["$ref"]?.string }
                let takesKey = parameters.contains("#/components/parameters/IdempotencyKey")
                let isKeyed =
                    path == "/admin/v1/accounts/{id}/spending"
                    || method == "post"
                        && !Self.unkeyed.contains(path)
                        && !path.hasSuffix("/quote")
                #expect(takesKey == isKeyed, "\(name)")
            }
        }
    }

    @Test func `every response with a feed number also names its epoch`() {
        var answers = members(document["components"]?["responses"])
        for (path, item) in members(document["paths"]) {
            for (method, operation) in members(item) {
                for (status, answer) in members(operation["responses"]) {
                    answers["\(method) \(path) \(status)"] = answer
                }
            }
        }
        let numbered = answers.filter { $0.value["headers"]?["Sanguine-Head"] != nil }
        #expect(numbered.count > 15)
        for (name, answer) in numbered {
            #expect(answer["headers"]?["Sanguine-Epoch"] != nil, "\(name)")
        }
    }

    @Test func `the document is served whole, with a tag, to everyone`() async throws {
        try await LiveServer.with { server in
            let reply = try await server.send("GET", "/openapi.json")
            #expect(reply.status == 200)
            #expect(reply["Content-Type"] == "application/json")
            #expect(try reply.json == document)
            #expect(document["openapi"]?.string?.hasPrefix("3.1.") == true)
            let tag = try #require(reply["ETag"])
            let again = try await server.send(
                "GET",
                "/openapi.json",
                headers: ["If-None-Match": tag]
            )
            #expect(again.status == 304)
        }
    }
}

extension ProblemCode {
    /// Every code that the source declares, so that no new code is missed.
    fileprivate static func declared() throws -> [ProblemCode] {
        let tests = URL(filePath: #filePath).deletingLastPathComponent()
        let source = tests.appending(
            path: "../../../Sources/SanguineModel/Wire/ProblemCode.swift"
        ).standardizedFileURL
        return try String(contentsOf: source, encoding: .utf8)
            .matches(of: #/= Self\(rawValue: "([a-z_]+)"\)/#)
            .map { ProblemCode(rawValue: String($0.1)) }
    }
}
