import Foundation
import Hummingbird
import SanguineModel

@testable import SanguineServer

/// An operation that a server routes, with its description in `openapi.json`.
struct ServedOperation: Hashable, CustomStringConvertible {
    /// The method, in upper case.
    let method: String
    /// The path with parameters in braces.
    let path: String

    var description: String { "\(method) \(path)" }

    /// The path with the values of its parameters; others get a value that fits any parameter.
    func path(_ values: [String: String] = [:]) -> String {
        path.split(separator: "/", omittingEmptySubsequences: false).map { part in
            guard part.hasPrefix("{"), part.hasSuffix("}") else { return String(part) }
            return values[String(part.dropFirst().dropLast())] ?? Self.unknown
        }
        .joined(separator: "/")
    }

    /// An id that no test creates.
    static let unknown = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"

    /// The parameters of the path.
    var parameters: [String] {
        path.split(separator: "/").filter { $0.hasPrefix("{") }
            .map { String($0.dropFirst().dropLast()) }
    }

    /// The operations of a port, without HEAD, which responds as GET does.
    static func all(isAdmin: Bool = false) async throws -> [ServedOperation] {
        let server = try await LiveServer.Setup().server()
        let router =
            isAdmin
            ? server.adminRouter() : server.publicRouter(server.functionRunner(Upstreams([])))
        return router.routes.filter { $0.method != .head }
            .map { ServedOperation(method: $0.method.rawValue, path: $0.path.description) }
            .sorted { "\($0)" < "\($1)" }
    }

    /// Whether the document says that the operation needs an access token.
    ///
    /// - Throws: an error if the document does not describe the operation.
    func needsToken(_ document: JSONValue) throws -> Bool {
        struct Undescribed: Error { let operation: String }
        let item = document["paths"]?[path]?[method.lowercased()]
        guard let item else { throw Undescribed(operation: description) }
        guard case .array(let alternatives)? = item["security"] ?? document["security"] else {
            return false
        }
        return !alternatives.isEmpty
            && alternatives.allSatisfy { $0["accessToken"] != nil || $0["ticket"] != nil }
    }

    /// The document that the server publishes.
    static func document() throws -> JSONValue {
        try JSONDecoder().decode(JSONValue.self, from: Data(PackageResources.openapi_json))
    }
}
