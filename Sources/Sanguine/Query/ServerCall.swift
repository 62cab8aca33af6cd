import Foundation
import SanguineModel

/// Calls of the Sanguine server in the name of one user, or of whoever is there.
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
        /// `Sanguine-Epoch`: the epoch of the number.
        var epoch: Epoch?
        var response: TransportResponse
    }

    let server: URL?
    let exchange: Exchange
    let authorizer: any Authorizer

    /// Sends an authorised request; once more with a new token if the first was not accepted.
    ///
    /// The request goes out only while the user is there.
    ///
    /// - Parameters:
    ///   - request: What to send; to the server's own address.
    ///   - limit: The time that is left for all sendings together. Default: each has the request's
    ///     own.
    ///   - report: Receives the progress of the upload. Default: `nil`.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: ``SanguineError/userChanged`` if the user is gone before it goes out.
    func send(
        _ request: TransportRequest,
        within limit: TimeLimit? = nil,
        _ report: UploadReport? = nil
    ) async throws(SanguineError) -> TransportResponse {
        guard let server, request.url.origin == server.origin else {
            throw .notConfigured("'server', or the call goes to another host")
        }
        let user = authorizer.bound()
        return try await user.attempt(curing: Self.isCuredByToken) { token throws(SanguineError) in
            try await send(request, token: token, of: user, within: limit, report)
        }
    }

    /// Opens an authorised stream; once more with a new token if the first was not accepted.
    ///
    /// - Returns: A stream whose status is from 200 to 299.
    /// - Throws: As ``send(_:within:_:)`` does; ``SanguineError/notConfigured(_:)`` if the
    ///   transport has no streams.
    func stream(
        _ request: TransportRequest
    ) async throws(SanguineError) -> TransportStream {
        guard let server, request.url.origin == server.origin else {
            throw .notConfigured("'server', or the call goes to another host")
        }
        let user = authorizer.bound()
        return try await user.attempt(curing: Self.isCuredByToken) { token throws(SanguineError) in
            try await exchange.stream(try authorized(request, token, user))
        }
    }

    /// A `GET` below the server's address.
    func get<Value: Decodable & Sendable>(
        _ path: String,
        query: [URLQueryItem] = [],
        within limit: TimeLimit? = nil,
        as type: Value.Type = Value.self,
        decode: Decoding<Value> = Self.decoded
    ) async throws(SanguineError) -> Answer<Value> {
        try await call("GET", path, query: query, within: limit, as: type, decode: decode)
    }

    /// How an answer is decoded.
    typealias Decoding<Value> = (TransportResponse) throws(SanguineError) -> Value

    /// Decodes an answer that holds no records.
    static func decoded<Value: Decodable>(
        _ response: TransportResponse
    ) throws(SanguineError) -> Value {
        try WireCoding.decode(Value.self, from: response)
    }

    /// A call with a JSON body, or none, and a JSON answer.
    func call<Value: Decodable & Sendable>(
        _ method: String,
        _ path: String,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil,
        timeout: Duration = ClientLimits.requestTimeout,
        within limit: TimeLimit? = nil,
        as type: Value.Type = Value.self,
        decode: Decoding<Value> = Self.decoded
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
        let response = try await send(request, within: limit)
        return Answer(
            value: try decode(response),
            head: response.header("sanguine-head").flatMap { Int64($0) },
            epoch: response.epoch,
            response: response
        )
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

    private static func isCuredByToken(_ problem: Problem) -> Bool {
        problem.status == 401
            && [.tokenExpired, .unauthenticated, .sessionEnded].contains(problem.code)
    }
}
