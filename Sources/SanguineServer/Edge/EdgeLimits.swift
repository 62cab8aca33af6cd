import SanguineAuthority

/// What bounds every connection beside what an operator can set.
public enum EdgeLimits {
    /// Requests of a connection that wait for their answer: 100.
    ///
    /// One more ends the connection, after the answers to those before it.
    public static let pipelinedRequests = 100
    /// Connections that the system may hand out in one go, before more are left to wait: 64.
    ///
    /// They and those that are just being closed are above the limit of connections for a moment.
    public static let acceptedAtOnce = 64
    /// Requests that are being answered at a time: 8,000.
    ///
    /// One address gets half of them, and so never all of what stands behind, such as the queue of
    /// commands. Live connections are not among them.
    public static let requestsInFlight = 8_000
    /// Bytes of an answer that are written at a time: 16 KiB.
    ///
    /// With each piece that is taken ``ServerSettings/Limits/writeTimeout`` begins anew. Beside the
    /// answers that wait to be written, a connection holds two of them.
    public static let pieceBytes = 1 << 14
    /// Bytes that the system holds of what was not sent yet, of each connection: 128 KiB.
    public static let unsentBytes = 1 << 17
    /// Bytes of an answer that is always given, however much waits: 4 KiB.
    public static let exemptAnswerBytes = 1 << 12
    /// Bytes of an answer that is not compressed: 1 KiB.
    public static let uncompressedBytes = 1 << 10
    /// Bytes of an answer that is compressed at most: 4 MiB; a longer one goes out as it is.
    public static let compressedBytes = 1 << 22
    /// Requests of a connection of HTTP/2 at a time: 100.
    public static let streams = 100
    /// Bytes of a body that is read on its connection's own thread: 16 KiB.
    ///
    /// A longer one would keep others waiting who share the thread.
    public static let shortBodyBytes = WireBody.shortBytes
    /// Bytes of a request's header fields over HTTP/2: 16 KiB.
    public static let http2HeaderBytes = 1 << 14
    /// Requests that a client may cancel in 30 s over one connection of HTTP/2: 200.
    public static let resetStreams = 200
    /// How long a client may take for its part of the TLS handshake: 10 seconds.
    public static let handshakeSeconds = 10
    /// Wrong admin tokens of an address in a minute: 10; more of them are refused with 429.
    public static let wrongAdminTokens = 10
    /// How long a browser is signed in to the admin port: 12 hours.
    public static let adminSessionSeconds = 12 * 3_600
    /// Files of the largest size that are received at a time: 4.
    ///
    /// Together they may have as many bytes as that many; an address half of it, and an account as
    /// many as one.
    public static let filesAtOnce = 4
    /// How many times as long as any other body a file may take to arrive: 4.
    public static let fileTimeFactor = 4
    /// The share of the answers and bodies that wait that one account may have: an eighth.
    public static let accountShare = 8
    /// After how long those who are refused because too much waits may come back: 1 second.
    public static let retryAfterSeconds = 1
}
