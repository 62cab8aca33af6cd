public import Foundation

/// Carries one HTTP exchange: a request out, the whole response back.
///
/// The client's default is ``URLSessionTransport``. Tests pass a scripted one, apps with a network
/// stack of their own wrap it.
///
/// A transport never retries, keeps no cookies and caches nothing: those decisions are made above
/// it. If the calling task is cancelled it gives up the exchange and throws
/// ``TransportError/cancelled``.
public protocol HTTPTransport: Sendable {
    /// Sends a request and returns the response, whatever its status.
    ///
    /// - Throws: ``TransportError`` if there is no complete response.
    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse
}

/// A request as it goes out.
public struct TransportRequest: Sendable, Hashable {
    /// The HTTP method, in upper case.
    public var method: String
    /// Where to; absolute.
    public var url: URL
    /// Header fields by name.
    public var headers: [String: String]
    /// The body, if there is one, and it is in memory.
    public var body: Data?
    /// The file whose content is the body, if it is not in memory.
    ///
    /// It is what a ``RequestBody`` with files becomes; ``body`` is `nil` then. An ``Interceptor``
    /// may read it, to sign it, say. Only an ``UploadingTransport`` is given such a request.
    /// Default: none.
    public var bodyFile: URL?
    /// How long the whole exchange may take, from sending to the last byte; for a ``RequestBody``,
    /// how long nothing may be sent or received.
    public var timeout: Duration

    /// Creates a request.
    ///
    /// Default: a `GET` without headers, 30 seconds.
    public init(
        method: String = "GET",
        url: URL,
        headers: [String: String] = [:],
        body: Data? = nil,
        timeout: Duration = ClientLimits.requestTimeout
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.timeout = timeout
    }
}

/// A response as it came in, whole.
public struct TransportResponse: Sendable, Hashable {
    /// The HTTP status.
    public var status: Int
    /// Header fields; names in lower case.
    public var headers: [String: String]
    /// The body; empty if there was none.
    public var body: Data

    /// Creates a response; names of headers are lower-cased.
    public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
        self.status = status
        self.headers = Dictionary(
            headers.map { ($0.key.lowercased(), $0.value) },
            uniquingKeysWith: { first, second in "\(first), \(second)" }
        )
        self.body = body
    }

    /// The header field of that name, in any case, or `nil`.
    public func header(_ name: String) -> String? { headers[name.lowercased()] }
}

/// Why there is no response.
///
/// The cases differ in the one thing that matters for a write: whether the server may have seen the
/// request.
public enum TransportError: Error, Hashable, Sendable {
    /// The exchange took longer than ``TransportRequest/timeout``. The server may have seen it.
    case timedOut
    /// The calling task was cancelled. The server may have seen the request.
    case cancelled
    /// The request never reached the server: refused, no route, no such name.
    case offline(String)
    /// The connection broke. The server may have seen the request.
    case interrupted(String)
    /// The response is a success, and larger than the transport accepts. The server has done what
    /// was asked.
    ///
    /// Of any other status, a transport gives the beginning of the body.
    case bodyTooLarge(limitBytes: Int)
    /// The request cannot be sent as it is, or the response is no HTTP.
    case invalid(String)
    /// The response is a success, and it is not the backend's: a proxy or the login page of a
    /// network has answered in its place. The server may have seen the request.
    ///
    /// A transport never throws it: ``SanguineClient/Configuration/isAnswer`` decides, and, for the
    /// answer to a write, whether it has anything of the declared type.
    case intercepted(String)
}

extension TransportError: CustomStringConvertible {
    /// What happened, and what the developer can do about it.
    public var description: String {
        switch self {
        case .timedOut:
            "The server did not answer in time. Try again, or give the query a longer 'timeout'."
        case .cancelled:
            "The request was cancelled by the task that made it."
        case .offline(let reason):
            "The server cannot be reached (\(reason)). Check the address and the network."
        case .interrupted(let reason):
            "The connection broke before the answer was complete (\(reason)). Try again."
        case .bodyTooLarge(let limit):
            """
            The request was answered with success, and the answer is larger than \(limit) bytes. \
            Ask for less at once, such as a page.
            """
        case .invalid(let reason):
            "The exchange is no valid HTTP (\(reason)). Check the address of the server."
        case .intercepted(let reason):
            """
            The answer is not the backend's (\(reason)). Sign in to the network and try again. If \
            the backend does answer so, ask for it in 'Accept', or set 'isAnswer' in \
            SanguineClient.Configuration.
            """
        }
    }
}
