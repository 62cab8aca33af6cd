import ArgumentParser
import Foundation
import Sanguine
import SanguineModel
import SanguineServer

/// The address and the token of a running server's admin port.
struct AdminOptions: ParsableArguments {
    @OptionGroup var data: DataOptions
    @OptionGroup var options: SettingsOptions

    @Option(
        name: .customLong("as"),
        help: "The name of the admin token, as in 'admin.tokens'. Default: that of the owner."
    )
    var token: String?

    @Flag(help: "Print JSON.")
    var json = false

    /// Sends a request to the admin port and returns the body of a successful response.
    ///
    /// - Throws: ``Failure`` with the server's detail and code.
    func send(
        _ method: String,
        _ path: String,
        query: [String: String?] = [:],
        body: (any Encodable)? = nil,
        key: String? = nil
    ) async throws -> Data {
        let response = try await respond(method, path, query: query, body: body, key: key)
        return try Self.body(of: response)
    }

    /// Sends a request to the admin port and returns its response, which may be a refusal.
    ///
    /// `tag` is the entity tag of the content that is to be replaced; `nil` for any.
    func respond(
        _ method: String,
        _ path: String,
        query: [String: String?] = [:],
        body: (any Encodable)? = nil,
        key: String? = nil,
        replacing tag: String? = nil
    ) async throws -> TransportResponse {
        let transport = URLSessionTransport()
        defer { transport.close() }
        var request = try await request(method, path, query: query, body: body, key: key)
        if let tag { request.headers["If-Match"] = tag }
        do {
            return try await transport.send(request)
        } catch {
            let again = key.map { " Repeat it with '--key \($0)'." } ?? ""
            throw Failure("The server at \(request.url) did not respond. \(error)\(again)")
        }
    }

    /// Returns the body of a successful response.
    ///
    /// - Throws: ``Failure`` with the server's detail and code.
    static func body(of response: TransportResponse) throws -> Data {
        guard (200..<300).contains(response.status) else {
            throw refusal(response.status, response.body)
        }
        return response.body
    }

    /// Sends a request to the admin port and writes the body as it arrives.
    func write(_ path: String, query: [String: String?]) async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let request = try await request("GET", path, query: query, body: nil, key: nil)
        let stream: TransportStream
        do {
            stream = try await transport.stream(request)
        } catch {
            throw Failure("The server at \(request.url) did not respond. \(error)")
        }
        var rest = Data()
        var last = ""
        while let bytes = try await stream.next() {
            rest += bytes
            guard stream.response.status == 200 else { continue }
            while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
                last = String(decoding: rest[rest.startIndex..<end], as: UTF8.self)
                try Output.write(last)
                rest = Data(rest[rest.index(after: end)...])
            }
        }
        guard stream.response.status == 200 else {
            throw Self.refusal(stream.response.status, rest)
        }
        guard Self.isEnd(last) else {
            throw Failure("The export broke off. Run the command again.")
        }
    }

    /// Whether a line of an export is the last one; a record may contain the same text.
    static func isEnd(_ line: String) -> Bool {
        struct Line: Decodable { var type: String }
        let content = try? JSONDecoder().decode(Line.self, from: Data(line.utf8))
        return content?.type == "end"
    }

    private func request(
        _ method: String,
        _ path: String,
        query: [String: String?],
        body: (any Encodable)?,
        key: String?
    ) async throws -> TransportRequest {
        let http = try await options.load().settings.http
        let port = http.adminPort ?? http.port + 1
        let host = http.adminHost.contains(":") ? "[\(http.adminHost)]" : http.adminHost
        var parts = URLComponents(string: "http://\(host):\(port)/admin/v1/\(path)")
        let items = query.sorted { $0.key < $1.key }.compactMap { name, value in
            value.map { URLQueryItem(name: name, value: $0) }
        }
        if !items.isEmpty {
            parts?.queryItems = items
            // A plus sign would be read as a blank.
            let encoded = parts?.percentEncodedQuery?.replacing("+", with: "%2B")
            parts?.percentEncodedQuery = encoded
        }
        guard let url = parts?.url else {
            throw Failure("'\(host)' is not a valid host. Set '--admin-host'.")
        }
        var headers = ["Authorization": "Bearer \(try secret())"]
        if let key { headers["Idempotency-Key"] = key }
        if body != nil { headers["Content-Type"] = "application/json" }
        return TransportRequest(
            method: method,
            url: url,
            headers: headers,
            body: try body.map { try JSONEncoder().encode($0) }
        )
    }

    private func secret() throws -> String {
        let folder = try data.usableFolder()
        let name = token.map { "\(AdminToken.name).\($0)" } ?? AdminToken.name
        let file = folder.appending(path: name)
        guard let text = try? String(contentsOf: file, encoding: .utf8) else {
            throw Failure(
                "There is no admin token at \(file.path). Start the server once, or set '--data'."
            )
        }
        return text.filter { !$0.isNewline }
    }

    private static func refusal(_ status: Int, _ body: Data) -> Failure {
        let problem = try? JSONDecoder().decode(Problem.self, from: body)
        return Failure(
            problem.map { "\($0.detail) (\($0.code.rawValue))" }
                ?? "The server responded with \(status). Check '--admin-port'."
        )
    }
}

/// One account, by its id.
struct AccountOption: ParsableArguments {
    @Option(help: "The account's id; 'sanguine account find' finds it.")
    var id: String

    func validate() throws {
        guard Identifier(id) != nil else { throw ValidationError("Set '--id' to a UUID.") }
    }

    /// The path of the account on the admin port.
    var path: String { "accounts/\(id.lowercased())" }
}

/// The reason of an act.
struct ReasonOption: ParsableArguments {
    @Option(help: "The reason, for the audit log.")
    var reason: String

    func validate() throws {
        guard reason.isPlainText(of: WireLimits.reasonCharacters) else {
            throw ValidationError("Set '--reason' to 1 to 200 printable characters.")
        }
    }
}
