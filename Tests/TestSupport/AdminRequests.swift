package import Foundation
package import Sanguine

/// Sends the requests of an administrator to a real server.
package struct AdminRequests: Sendable {
    private let server: URL
    private let token: String

    /// Creates requests with the token that the server wrote to its data folder.
    ///
    /// - Parameters:
    ///   - server: The address for administration.
    ///   - data: The folder of the server's data.
    /// - Throws: An error of the file system.
    package init(to server: URL, data: URL) throws {
        self.server = server
        let file = data.appending(path: "admin-token")
        token = try String(contentsOf: file, encoding: .utf8)
            .trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// Sends a request to a path below `admin/v1`.
    package func send(
        _ method: String,
        _ path: String,
        query: [URLQueryItem] = [],
        _ body: String? = nil
    ) async throws -> TransportResponse {
        var url = server.appending(path: "admin/v1/\(path)")
        if !query.isEmpty { url.append(queryItems: query) }
        let request = TransportRequest(
            method: method,
            url: url,
            headers: [
                "Authorization": "Bearer \(token)", "Content-Type": "application/json",
                "Idempotency-Key": UUID().uuidString,
            ],
            body: body.map { Data($0.utf8) }
        )
        return try await URLSessionTransport.patient.send(request)
    }

    /// Returns the account that support finds by a device's id.
    package func account(ofDevice id: String) async throws -> Account {
        let device = URLQueryItem(name: "deviceId", value: id)
        let found = try await send("GET", "accounts", query: [device])
        let decoder = JSONDecoder()
        if let account = try? decoder.decode(Account.self, from: found.body) { return account }
        struct Details: Decodable { let account: Account }
        return try decoder.decode(Details.self, from: found.body).account
    }
}
