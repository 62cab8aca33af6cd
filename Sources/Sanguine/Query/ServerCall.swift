import Foundation
import SanguineModel

/// Sends requests to the Sanguine server on behalf of one user, or of the current one.
///
/// ```swift
/// let answer = try await call.get("/v1/quotas", as: Items<Quota>.self)
/// ```
struct ServerCall: Sendable {
    /// A decoded response.
    struct Answer<Value: Sendable>: Sendable {
        var value: Value
        /// `Sanguine-Head`: the number in the account's feed that contains the change.
        var head: Int64?
        /// `Sanguine-Epoch`: the epoch of the number.
        var epoch: Epoch?
        var response: TransportResponse

        init(
            _ response: TransportResponse,
            _ decode: (TransportResponse) throws(SanguineError) -> Value
        ) throws(SanguineError) {
            value = try decode(response)
            head = response.header("sanguine-head").flatMap { Int64($0) }
            epoch = response.epoch
            self.response = response
        }
    }

    let server: URL?
    let exchange: Exchange
    let authorizer: any Authorizer

    /// Sends an authorized request, and once more with a new token if the first was rejected.
    ///
    /// The request is sent only while its user is current.
    ///
    /// - Parameters:
    ///   - request: The request, with the server's own address.
    ///   - limit: The time left for all attempts together. Default: each attempt has the request's
    ///     own time limit.
    ///   - report: Receives the progress of the upload. Default: `nil`.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: ``SanguineError/userChanged`` if the user leaves before the request is sent;
    ///   ``SanguineError/notConfigured(_:)`` without a server, and
    ///   ``SanguineError/invalidDeclaration(_:)`` for another host.
    func send(
        _ request: TransportRequest,
        within limit: TimeLimit? = nil,
        _ report: UploadReport? = nil
    ) async throws(SanguineError) -> TransportResponse {
        try check(request)
        let user = authorizer.bound()
        let account = user.account
        let response = try await attempt(request, of: user, within: limit, report)
        guard let account, let now = user.account, now != account else { return response }
        // The guest has become a part of another account, whose numbers are different ones.
        if request.method == "GET" {
            return try await attempt(request, of: user, within: limit, report)
        }
        var former = response
        former.headers["sanguine-epoch"] = Epoch.former(account).text
        return former
    }

    private func attempt(
        _ request: TransportRequest,
        of user: any Authorizer,
        within limit: TimeLimit?,
        _ report: UploadReport?
    ) async throws(SanguineError) -> TransportResponse {
        try await user.attempt(curing: Self.canRetryWithNewToken) {
            token throws(SanguineError) in
            try await send(request, token: token, of: user, within: limit, report)
        }
    }

    /// Opens an authorized stream, and once more with a new token if the first was rejected.
    ///
    /// - Returns: A stream with a status from 200 to 299.
    /// - Throws: The errors of ``send(_:within:_:)``; ``SanguineError/notConfigured(_:)`` if the
    ///   transport does not support streams.
    func stream(
        _ request: TransportRequest
    ) async throws(SanguineError) -> TransportStream {
        try check(request)
        let user = authorizer.bound()
        return try await user.attempt(curing: Self.canRetryWithNewToken) {
            token throws(SanguineError) in
            try await exchange.stream(try authorized(request, token, user))
        }
    }

    /// Sends a `GET` request to a path below the server's address.
    func get<Value: Decodable & Sendable>(
        _ path: String,
        query: [URLQueryItem] = [],
        within limit: TimeLimit? = nil,
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Answer<Value> {
        try await call("GET", path, query: query, within: limit, as: type)
    }

    /// Sends a `GET` request to a path below the server's address, and decodes the response.
    func get<Value: Sendable>(
        _ path: String,
        query: [URLQueryItem],
        decode: (TransportResponse) throws(SanguineError) -> Value
    ) async throws(SanguineError) -> Answer<Value> {
        let request = try TransportRequest(method: "GET", base: server, path: path, query: query)
        return try Answer(await send(request), decode)
    }

    /// Sends a request with or without a JSON body and decodes the JSON response.
    func call<Value: Decodable & Sendable>(
        _ method: String,
        _ path: String,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil,
        timeout: Duration = ClientLimits.requestTimeout,
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
        return try Answer(await send(request, within: limit)) {
            response throws(SanguineError) in
            try WireCoding.decode(type, from: response)
        }
    }

    private func send(
        _ request: TransportRequest,
        token: String,
        of user: any Authorizer,
        within limit: TimeLimit?,
        _ report: UploadReport?
    ) async throws(SanguineError) -> TransportResponse {
        var request = try authorized(request, token, user)
        if let limit {
            request.timeout = min(request.timeout, limit.left)
            guard request.timeout > .zero else { throw .transport(.timedOut) }
        }
        return try await exchange.send(request, report)
    }

    /// Throws if the request must not have the session's token.
    private func check(_ request: TransportRequest) throws(SanguineError) {
        guard let server else { throw .notConfigured("'server'") }
        guard request.url.origin == server.origin else {
            throw .invalidDeclaration(
                """
                The session's token is only for 'server', but the call goes to \
                \(request.url.host() ?? "another host"). Use a path of 'server'.
                """
            )
        }
    }

    private func authorized(
        _ request: TransportRequest,
        _ token: String,
        _ user: any Authorizer
    ) throws(SanguineError) -> TransportRequest {
        try user.check()
        var request = request
        request.headers.setHeader("Authorization", "Bearer \(token)")
        return request
    }

    private static func canRetryWithNewToken(_ problem: Problem) -> Bool {
        problem.status == 401
            && [.tokenExpired, .unauthenticated, .sessionEnded].contains(problem.code)
    }
}

extension Epoch {
    /// The epoch of numbers in the feed of an account that has become a part of another one.
    ///
    /// No server has it, so that nothing is compared with numbers of the other account, and the
    /// feed is read from its start.
    static func former(_ account: Identifier) -> Epoch {
        Epoch("former-\(account)") ?? .random()
    }
}
