public import Foundation

/// Performs one HTTP exchange: sends a request, and receives the whole response.
///
/// The client's default is ``URLSessionTransport``. Tests pass a scripted transport, and apps with
/// their own network stack wrap it.
///
/// A transport never retries, keeps no cookies and caches nothing: the layers above it do. If the
/// calling task is cancelled, it stops the exchange and throws ``TransportError/cancelled``.
public protocol HTTPTransport: Sendable {
    /// Sends a request and returns the response, regardless of its status.
    ///
    /// - Throws: ``TransportError`` if there is no complete response.
    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse
}

/// A request to be sent.
public struct TransportRequest: Sendable, Hashable {
    /// The HTTP method, in upper case.
    public var method: String
    /// The absolute address.
    public var url: URL
    /// Header fields by name.
    public var headers: [String: String]
    /// The body, if there is one and it is in memory.
    public var body: Data?
    /// The file whose content is the body, if it is not in memory.
    ///
    /// A ``RequestBody`` with files becomes one; ``body`` is `nil` then. An ``Interceptor`` may
    /// read it, for example to sign it. Only an ``UploadingTransport`` receives such a request.
    /// Default: none.
    public var bodyFile: URL?
    /// The longest time for the whole exchange, from sending to the last byte; for a
    /// ``RequestBody``, the longest time without a byte sent or received.
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

/// A complete response.
public struct TransportResponse: Sendable, Hashable {
    /// The HTTP status.
    public var status: Int
    /// Header fields; names in lower case.
    public var headers: [String: String]
    /// The body; empty if there was none.
    public var body: Data

    /// Creates a response; names of header fields are lowercased.
    public init(status: Int, headers: [String: String] = [:], body: Data = Data()) {
        self.status = status
        self.headers = Dictionary(
            headers.map { ($0.key.lowercased(), $0.value) },
            uniquingKeysWith: { first, second in "\(first), \(second)" }
        )
        self.body = body
    }

    /// Returns the header field with this name, in any case, or `nil`.
    public func header(_ name: String) -> String? { headers[name.lowercased()] }
}

/// The reason why there is no response.
///
/// The cases differ in what matters for a write: whether the server may have received the request.
public enum TransportError: Error, Hashable, Sendable {
    /// The exchange took longer than ``TransportRequest/timeout``. The server may have received it.
    case timedOut
    /// The calling task was cancelled. The server may have received the request.
    case cancelled
    /// The request did not reach the server: connection refused, no route, or unknown name.
    case offline(String)
    /// The exchange ended before the response was complete, in most cases because the connection
    /// broke. The server may have received the request.
    case interrupted(String)
    /// The response is a success but larger than the transport accepts. The server has performed
    /// the request.
    ///
    /// For any other status, a transport returns the beginning of the body.
    case bodyTooLarge(limitBytes: Int)
    /// The request cannot be sent as it is, or the response is not HTTP. The text says why.
    ///
    /// A text that ends with a full stop also says what to do.
    case invalid(String)
    /// The response is a success but not the backend's: a proxy or the login page of a network has
    /// sent it. The server may have received the request.
    ///
    /// A transport never throws it: ``SanguineClient/Configuration/isAnswer`` decides, and for a
    /// write also whether the response contains anything of the declared type.
    case intercepted(String)
}

extension TransportError: CustomStringConvertible {
    /// The failure, and what the developer can do about it.
    public var description: String {
        switch self {
        case .timedOut:
            "The server did not answer in time. Check the network and try again."
        case .cancelled:
            "The request was cancelled by the task that made it."
        case .offline(let reason):
            "The server cannot be reached (\(reason)). Check the address and the network."
        case .interrupted(let reason):
            "The exchange ended before the response was complete (\(reason)). Try again."
        case .bodyTooLarge(let limit):
            """
            The request succeeded, but its response is larger than \(limit) bytes. Request less at \
            once, such as a page.
            """
        case .invalid(let reason):
            "The HTTP exchange failed: "
                + reason.advising("Check the request and the address of the server.")
        case .intercepted(let reason):
            """
            The response is not the backend's (\(reason)). Sign in to the network and try again. \
            If the backend does send it, request its type in 'Accept', or set 'isAnswer' in \
            SanguineClient.Configuration.
            """
        }
    }
}

extension TransportError {
    /// The response is not HTTP.
    static let notHTTP = Self.invalid("the response is not HTTP. Check the address of the server.")
    /// The exchange ended with neither a response nor an error.
    static let noResponse = Self.invalid("there was no response. Check the address of the server.")
    /// The file with the request's body is missing, or cannot be read.
    package static let unreadableBodyFile = Self.invalid(
        "the file with the request's body cannot be read. Keep it where it is until it is sent."
    )
    /// The transport cannot send a file, and this one is too large for memory.
    static let fileNotSupported = Self.invalid(
        """
        this transport cannot send a file of more than \(ClientLimits.requestBodyBytes) bytes. Use \
        an UploadingTransport, such as URLSessionTransport.
        """
    )
}
