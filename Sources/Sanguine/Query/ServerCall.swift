import Foundation
import SanguineModel

/// Calls of the Sanguine server in the name of the present user.
///
/// ```swift
/// let answer = try await call.get("/v1/quotas", as: Items<Quota>.self)
/// ```
struct ServerCall: Sendable {
    /// A decoded answer.
    struct Answer<Value: Sendable>: Sendable {
        var value: Value
        /// `Sanguine-Head`: the number in the account's feed at which the change is contained.
        var head: Int64?
        var response: TransportResponse
    }

    let server: URL?
    let exchange: Exchange
    let authorizer: any Authorizer

    /// Sends an authorised request; once more with a new token if the first was not accepted.
    ///
    /// The request goes out only while the user is the one for whom it was made.
    ///
    /// - Parameters:
    ///   - request: What to send; to the server's own address.
    ///   - epoch: Whose request it is. Default: the present user's.
    ///   - limit: The time that is left for all sendings together. Default: each has the request's
    ///     own.
    /// - Returns: The response, of a status from 200 to 299.
    /// - Throws: ``SanguineError/userChanged`` if another user is there when it begins, or when the
    ///   token is.
    func send(
        _ request: TransportRequest,
        epoch: SessionEpoch? = nil,
        within limit: TimeLimit? = nil
    ) async throws(SanguineError) -> TransportResponse {
        guard let server, request.url.origin == server.origin else {
            throw .notConfigured("'server', or the call goes to another host")
        }
        let expected = epoch ?? authorizer.epoch
        let token = try await authorizer.accessToken(for: expected)
        do throws(SanguineError) {
            return try await send(request, token: token, expected: expected, within: limit)
        } catch .problem(let problem) where Self.isCuredByToken(problem) {
            let successor = try await authorizer.rejected(token, for: expected)
            return try await send(request, token: successor, expected: expected, within: limit)
        }
    }

    /// Opens an authorised stream; once more with a new token if the first was not accepted.
    ///
    /// - Returns: A stream whose status is from 200 to 299.
    /// - Throws: As ``send(_:epoch:)`` does; ``SanguineError/notConfigured(_:)`` if the transport
    ///   has no streams.
    func stream(
        _ request: TransportRequest,
        epoch: SessionEpoch
    ) async throws(SanguineError) -> TransportStream {
        guard let server, request.url.origin == server.origin else {
            throw .notConfigured("'server', or the call goes to another host")
        }
        let token = try await authorizer.accessToken(for: epoch)
        do throws(SanguineError) {
            return try await exchange.stream(try authorized(request, token, epoch))
        } catch .problem(let problem) where Self.isCuredByToken(problem) {
            let successor = try await authorizer.rejected(token, for: epoch)
            return try await exchange.stream(try authorized(request, successor, epoch))
        }
    }

    /// A `GET` below the server's address.
    func get<Value: Decodable & Sendable>(
        _ path: String,
        query: [URLQueryItem] = [],
        epoch: SessionEpoch? = nil,
        within limit: TimeLimit? = nil,
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Answer<Value> {
        try await call("GET", path, query: query, epoch: epoch, within: limit, as: type)
    }

    /// A call with a JSON body, or none, and a JSON answer.
    func call<Value: Decodable & Sendable>(
        _ method: String,
        _ path: String,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil,
        timeout: Duration = ClientLimits.requestTimeout,
        epoch: SessionEpoch? = nil,
        within limit: TimeLimit? = nil,
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Answer<Value> {
        let request = try TransportRequest(
            method: method,
            base: server,
            path: path,
            query: query,
            headers: headers,
            json: json,
            timeout: timeout
        )
        let response = try await send(request, epoch: epoch, within: limit)
        return Answer(
            value: try WireCoding.decode(type, from: response.body),
            head: response.header("sanguine-head").flatMap { Int64($0) },
            response: response
        )
    }

    private func send(
        _ request: TransportRequest,
        token: String,
        expected: SessionEpoch,
        within limit: TimeLimit?
    ) async throws(SanguineError) -> TransportResponse {
        var request = try authorized(request, token, expected)
        if let limit {
            request.timeout = min(request.timeout, limit.left)
            guard request.timeout > .zero else { throw .transport(.timedOut) }
        }
        return try await exchange.send(request)
    }

    private func authorized(
        _ request: TransportRequest,
        _ token: String,
        _ expected: SessionEpoch
    ) throws(SanguineError) -> TransportRequest {
        // Epochs never go back: if it still is the expected one, then so it was for the token.
        guard authorizer.epoch.number == expected.number else { throw .userChanged }
        var request = request
        request.headers.setHeader("Authorization", "Bearer \(token)")
        return request
    }

    private static func isCuredByToken(_ problem: Problem) -> Bool {
        problem.status == 401
            && [.tokenExpired, .unauthenticated, .sessionEnded].contains(problem.code)
    }
}
