import Foundation
import SanguineModel

/// An exchange above HTTP: it turns statuses into problems and JSON into values, without a sign-in.
struct Exchange: Sendable {
    let transport: any HTTPTransport
    let clock: any WallClock
    /// Reads the app's error from a response.
    var errorBody: (@Sendable (TransportResponse) -> ErrorBody?)?
    /// Whether a success is the backend's answer.
    var isAnswer: @Sendable (TransportRequest, TransportResponse) -> Bool = { request, response in
        response.isAnswer(to: request)
    }

    /// The interceptors in front of the transport, the outermost first.
    var interceptors: [Interceptor] = []

    /// Sends a request and returns the response if it is the backend's answer: for a Sanguine
    /// server, one with status 200 to 299 that is not a web page.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - report: Receives the progress of the body. Default: none.
    /// - Returns: The response.
    /// - Throws: The problem for any other status, with `retryAfter` from the header if the body
    ///   has none; ``TransportError/intercepted(_:)`` for a success that is not the backend's.
    func send(
        _ request: TransportRequest,
        _ report: UploadReport? = nil
    ) async throws(SanguineError) -> TransportResponse {
        let response = try await answer(to: request, report)
        if (200...399).contains(response.status), isAnswer(request, response) { return response }
        guard (200...299).contains(response.status) else {
            throw .problem(Problem(response, to: request, now: clock.now(), errorBody))
        }
        throw .transport(.intercepted(response.summary))
    }

    private func answer(
        to request: TransportRequest,
        _ report: UploadReport?
    ) async throws(SanguineError) -> TransportResponse {
        do {
            guard !interceptors.isEmpty else { return try await carry(request, report) }
            return try await pass(request, through: interceptors[...], report)
        } catch TransportError.cancelled {
            throw .cancelled
        } catch let error as TransportError {
            throw .transport(error)
        } catch {
            throw Task.isCancelled ? .cancelled : SanguineError(error)
        }
    }

    private func pass(
        _ request: TransportRequest,
        through rest: ArraySlice<Interceptor>,
        _ report: UploadReport?
    ) async throws -> TransportResponse {
        guard let next = rest.first else { return try await carry(request, report) }
        return try await next(request) { try await pass($0, through: rest.dropFirst(), report) }
    }

    private func carry(
        _ request: TransportRequest,
        _ report: UploadReport?
    ) async throws -> TransportResponse {
        guard report != nil || request.bodyFile != nil else {
            return try await transport.send(request)
        }
        // Checked at each attempt, because the file may have changed or disappeared since the last
        // one.
        guard let size = request.bodySize else {
            throw SanguineError.fileIsGone(request.bodyFile ?? request.url)
        }
        let isInMemory = request.bodyFile == nil || size <= Int64(ClientLimits.requestBodyBytes)
        guard transport is any UploadingTransport || isInMemory else {
            throw SanguineError.notConfigured(
                "a transport that is an 'UploadingTransport', for a body of \(size) bytes"
            )
        }
        report?.report(UploadProgress(sentBytes: 0, totalBytes: size))
        return try await transport.carry(request) { progress in report?.report(progress) }
    }

    /// Opens a stream if its status is 200 to 299.
    ///
    /// - Throws: The problem for any other status; `notConfigured` if the transport has no streams.
    func stream(_ request: TransportRequest) async throws(SanguineError) -> TransportStream {
        guard let transport = transport as? any StreamingTransport else {
            throw .notConfigured("a transport with streams")
        }
        var refusal: TransportResponse
        do throws(TransportError) {
            let stream = try await transport.stream(request)
            if (200...299).contains(stream.response.status) {
                guard !stream.response.isPage else {
                    throw TransportError.intercepted(stream.response.summary)
                }
                return stream
            }
            refusal = stream.response
            while refusal.body.count < WireLimits.bodyBytes, let part = try await stream.next() {
                refusal.body += part
            }
        } catch .cancelled {
            throw .cancelled
        } catch {
            throw .transport(error)
        }
        throw .problem(Problem(refusal, to: request, now: clock.now(), errorBody))
    }
}

extension TransportRequest {
    /// Creates a request to a path below a base address.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - base: The address of the backend, with or without a path and a trailing slash.
    ///   - path: The path below the base, with or without a leading slash; or an absolute address.
    ///   - query: Parameters to append; they are encoded here.
    ///   - headers: Header fields by name; an `Accept` or a `Content-Type` overrides the default.
    ///   - json: A body in JSON.
    ///   - timeout: The longest time that the exchange may take.
    /// - Throws: ``SanguineError/notConfigured(_:)`` without a base; an invalid exchange if the
    ///   result is not an address.
    init(
        method: String = "GET",
        base: URL?,
        path: String,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil,
        timeout: Duration = ClientLimits.requestTimeout
    ) throws(SanguineError) {
        let lowered = path.prefix(8).lowercased()
        let isAbsolute = lowered.hasPrefix("http://") || lowered.hasPrefix("https://")
        var text = path
        if !isAbsolute {
            guard let base else { throw .notConfigured("'server' or 'baseURL'") }
            let root = base.absoluteString
            text =
                (root.hasSuffix("/") ? String(root.dropLast()) : root)
                + (path.hasPrefix("/") ? path : "/" + path)
        }
        if !query.isEmpty {
            var components = URLComponents()
            components.queryItems = query
            // RFC 3986 allows a plus, but servers that parse forms read it as a space.
            let encoded = (components.percentEncodedQuery ?? "")
                .replacingOccurrences(of: "+", with: "%2B")
            text += (text.contains("?") ? "&" : "?") + encoded
        }
        guard let url = URL(string: text), url.host() != nil else {
            throw .transport(.invalid("the address '\(text)' is not valid. Correct it."))
        }
        var headers = headers
        headers.setHeader("Accept", ifMissing: "application/json")
        if json != nil { headers.setHeader("Content-Type", ifMissing: "application/json") }
        self.init(method: method, url: url, headers: headers, body: json, timeout: timeout)
    }
}

extension Problem {
    /// Creates the problem of a response, or one from its status if it contains none.
    ///
    /// The type of the body is ignored, because many backends send problems as plain JSON.
    ///
    /// - Parameters:
    ///   - response: The response.
    ///   - request: The request that it answers.
    ///   - now: The current time, for a `Retry-After` with a date.
    ///   - errorBody: Reads the app's error from the response, which takes precedence.
    init(
        _ response: TransportResponse,
        to request: TransportRequest,
        now: Timestamp,
        _ errorBody: (@Sendable (TransportResponse) -> ErrorBody?)? = nil
    ) {
        let status = response.status
        let said = errorBody?(response)
        if let said {
            self.init(
                said.code.map { ProblemCode(rawValue: $0) } ?? ProblemCode(status: status),
                said.detail ?? response.fallbackDetail,
                retryAfter: said.retryAfter
            )
            (self.status, type) = (status, "about:blank")
            title = said.title ?? ProblemCode.title(ofStatus: status)
        } else if let members = try? WireCoding.decode(Members.self, from: response.body),
            !members.isEmpty
        {
            self.init(members, status: status)
        } else {
            let moved = response.permanentAddress(of: request)
            self.init(
                ProblemCode(status: status),
                moved.map { Self.moved(request, to: $0) } ?? response.fallbackDetail
            )
            self.status = status
        }
        if retryAfter == nil, let header = response.header("retry-after") {
            retryAfter = RetryAfter.seconds(header, now: now)
        }
        known = ProblemContext(
            response: response.short,
            errorClass: said?.errorClass,
            isForeign: said == nil && response.isForeign(to: request)
        )
    }

    /// Describes how to react to a new address; without its query, which may be personal.
    private static func moved(_ request: TransportRequest, to address: URL) -> String {
        var parts = URLComponents(url: address, resolvingAgainstBaseURL: true)
        parts?.query = nil
        parts?.fragment = nil
        return """
            The backend has permanently moved '\(request.url.path())' to \
            '\(parts?.string ?? "")'. Correct the path or the scheme of the address.
            """
    }
}

extension TransportResponse {
    /// The response with the beginning of its body, as an error keeps it.
    var short: TransportResponse {
        guard body.count > ClientLimits.errorBodyBytes else { return self }
        var short = self
        short.body = Data(body.prefix(ClientLimits.errorBodyBytes))
        return short
    }

    /// Describes a response without a problem; without its body, which may be personal.
    fileprivate var fallbackDetail: String {
        guard !body.isEmpty else {
            return "The backend answered with status \(status) and an empty body."
        }
        return """
            The backend answered with status \(status). Its body, \(body.count) bytes of \
            \(mediaType ?? "no named type"), is not a problem document (RFC 9457).
            """
    }
}
