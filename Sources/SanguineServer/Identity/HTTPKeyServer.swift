import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import SanguineAuthority

/// Fetches the keys of identity providers over HTTP.
///
/// Each fetch has its own connection, which is closed afterwards: there is one fetch in an hour per
/// provider, and at most one in five seconds.
struct HTTPKeyServer: KeyServer {
    let logger: Logger

    func get(_ url: String, upTo bytes: Int) async throws -> KeyServerResponse {
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: Self.settings)
        let result: Result<KeyServerResponse, any Error>
        do {
            result = .success(try await response(to: url, upTo: bytes, from: client))
        } catch {
            result = .failure(error)
        }
        try? await client.shutdown()
        return try result.get()
    }

    func report(_ reason: String, of provider: String) {
        logger.warning(
            "The keys of an identity provider could not be fetched",
            metadata: ["provider": "\(provider)", "reason": "\(reason)"]
        )
    }

    private func response(
        to url: String,
        upTo bytes: Int,
        from client: HTTPClient
    ) async throws -> KeyServerResponse {
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "Accept", value: "application/json")
        // The caller has the time limit, and cancels.
        let response = try await client.execute(request, deadline: .distantFuture)
        let body = try await response.body.collect(upTo: bytes)
        let cacheControl = response.headers[canonicalForm: "Cache-Control"]
        return KeyServerResponse(
            status: Int(response.status.code),
            cacheControl: cacheControl.isEmpty ? nil : cacheControl.joined(separator: ","),
            age: response.headers.first(name: "Age").flatMap { Int64($0) },
            body: Array(body.readableBytesView)
        )
    }

    /// Redirects are not followed, because the URL was chosen by the operator or the provider.
    private static var settings: HTTPClient.Configuration {
        var settings = HTTPClient.Configuration(redirectConfiguration: .disallow)
        settings.connectionPool.retryConnectionEstablishment = false
        return settings
    }
}
