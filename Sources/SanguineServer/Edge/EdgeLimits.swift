/// What bounds every connection beside what an operator can set.
public enum EdgeLimits {
    /// Requests of a connection that wait for their answer: 100.
    ///
    /// One more ends the connection, after the answers to those before it.
    public static let pipelinedRequests = 100
    /// Bytes of an answer that are written at a time: 16 KiB.
    ///
    /// With each piece that is taken ``ServerSettings/Limits/writeTimeout`` begins anew. Beside the
    /// answers that wait to be written, a connection holds two of them.
    public static let pieceBytes = 1 << 14
    /// Bytes that the system holds of what was not sent yet, of each connection: 128 KiB.
    public static let unsentBytes = 1 << 17
    /// Bytes of an answer that is always given, however much waits: 4 KiB.
    public static let exemptAnswerBytes = 1 << 12
    /// The share of the answers and bodies that wait that one account may have: an eighth.
    public static let accountShare = 8
    /// After how long those who are refused because too much waits may come back: 1 second.
    public static let retryAfterSeconds = 1
}
