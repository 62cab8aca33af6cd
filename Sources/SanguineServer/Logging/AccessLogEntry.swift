public import SanguineModel

/// The entry of a request in the access log.
///
/// It contains no personal data: a route's template instead of a path, because paths contain ids,
/// and no account, token or address. The log may therefore be stored and shipped freely.
public struct AccessLogEntry: Hashable, Sendable {
    /// The maximum length of a line in bytes: 1 KiB.
    static let lineBytes = 1_024

    /// The time at which the request arrived.
    public var time: Timestamp
    /// The method: `POST`.
    public var method: String
    /// The route's template: `/v1/holds/{id}/capture`.
    public var route: String
    /// The status of the response.
    public var status: Int
    /// The time from the request's head to the end of the response.
    public var duration: Duration
    /// The id of the request in other log lines.
    public var requestID: String
    /// Bytes of the request's body.
    public var requestBytes: Int
    /// Bytes of the response's body.
    public var responseBytes: Int

    /// Creates an entry.
    public init(
        time: Timestamp,
        method: String,
        route: String,
        status: Int,
        duration: Duration,
        requestID: String,
        requestBytes: Int = 0,
        responseBytes: Int = 0
    ) {
        self.time = time
        self.method = method
        self.route = route
        self.status = status
        self.duration = duration
        self.requestID = requestID
        self.requestBytes = requestBytes
        self.responseBytes = responseBytes
    }

    /// The entry as one line of JSON, including its line feed.
    ///
    ///     {"time":"…","type":"access","method":"GET","route":"/v1/balance","status":200,
    ///     "durationMs":0.412,"requestId":"…","requestBytes":0,"responseBytes":74}
    func line() -> [UInt8] {
        var line = JSONLine(limit: Self.lineBytes)
        line.add("time", time.description)
        line.add("type", "access")
        line.add("method", method, longest: 32)
        line.add("route", route, longest: 256)
        line.add("status", status)
        line.add("durationMs", thousandths: duration.wholeNanoseconds / 1_000)
        line.add("requestId", requestID, longest: 128)
        line.add("requestBytes", requestBytes)
        line.add("responseBytes", responseBytes)
        return line.finish()
    }
}
