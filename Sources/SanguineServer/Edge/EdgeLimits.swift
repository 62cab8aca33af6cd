import SanguineAuthority

/// Limits of every connection that an operator cannot change.
public enum EdgeLimits {
    /// The number of requests of a connection that may wait for their response: 100.
    ///
    /// Another request ends the connection, after the responses to the earlier ones.
    public static let pipelinedRequests = 100
    /// The number of connections that the system may accept at once before the server pauses
    /// accepting: 64.
    ///
    /// For a moment, these connections and those that are closing may exceed the connection limit.
    public static let acceptedAtOnce = 64
    /// The number of requests in progress: 8,000.
    ///
    /// One address gets at most half of them, so that it cannot exhaust shared resources such as
    /// the command queue. Live connections are not counted.
    public static let requestsInFlight = 8_000
    /// The number of bytes of a response that are written at once: 16 KiB.
    ///
    /// ``ServerSettings/Limits/writeTimeout`` restarts with each piece that is sent. A connection
    /// holds two pieces, in addition to the responses that wait to be written.
    public static let pieceBytes = 1 << 14
    /// The number of bytes of unsent data that the system buffers for each connection: 128 KiB.
    public static let unsentBytes = 1 << 17
    /// The size in bytes of a response that is sent even if many others are waiting: 4 KiB.
    public static let exemptAnswerBytes = 1 << 12
    /// The largest response that is not compressed: 1 KiB.
    public static let uncompressedBytes = 1 << 10
    /// The largest response that is compressed: 4 MiB; a longer one is sent uncompressed.
    public static let compressedBytes = 1 << 22
    /// The number of concurrent requests on an HTTP/2 connection: 100.
    public static let streams = 100
    /// The largest body that is read on its connection's own thread: 16 KiB.
    ///
    /// A longer body would delay other connections that share the thread.
    public static let shortBodyBytes = WireBody.shortBytes
    /// The maximum size in bytes of a request's header fields in HTTP/2: 16 KiB.
    public static let http2HeaderBytes = 1 << 14
    /// The number of requests that a client may cancel within 30 s on an HTTP/2 connection: 200.
    public static let resetStreams = 200
    /// The time that a client has for its part of the TLS handshake: 10 seconds.
    public static let handshakeSeconds = 10
    /// The number of wrong admin tokens from an address in a minute: 10; further attempts are
    /// refused with 429.
    public static let wrongAdminTokens = 10
    /// The time that a browser stays signed in to the admin port: 12 hours.
    public static let adminSessionSeconds = 12 * 3_600
    /// The number of files of the maximum size that are received concurrently: 4.
    ///
    /// The size of this number of files is the limit for all files together. An address may use
    /// half of it, an account the size of one file.
    public static let filesAtOnce = 4
    /// The factor by which a file may take longer to arrive than any other body: 4.
    public static let fileTimeFactor = 4
    /// The share of waiting responses and bodies that one account may use: an eighth.
    public static let accountShare = 8
    /// The delay before a client that was refused because of the load may retry: 1 second.
    public static let retryAfterSeconds = 1
}
