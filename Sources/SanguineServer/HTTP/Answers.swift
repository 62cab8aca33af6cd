import HTTPTypes
import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

extension HTTPField.Name {
    static let age = named("Age")
    static let idempotencyKey = named("Idempotency-Key")
    static let idempotencyReplayed = named("Idempotency-Replayed")
    static let sanguineCall = named("Sanguine-Call")
    static let sanguineEpoch = named("Sanguine-Epoch")
    static let sanguineHead = named("Sanguine-Head")
    static let userID = named("X-User-Id")
    static let rateLimit = named("RateLimit")
    static let rateLimitPolicy = named("RateLimit-Policy")
    static let cacheStatus = named("Cache-Status")
    static let lastEventID = named("Last-Event-ID")
    static let accelBuffering = named("X-Accel-Buffering")
    static let forwarded = named("Forwarded")
    static let forwardedFor = named("X-Forwarded-For")

    private static func named(_ text: String) -> Self {
        guard let name = Self(text) else {
            preconditionFailure("'\(text)' is written above, and is a token of RFC 9110.")
        }
        return name
    }
}

extension HTTPFields {
    /// Adds a field that is not there yet, which setting it by its name would look for.
    mutating func add(_ name: HTTPField.Name, _ value: String) {
        append(HTTPField(name: name, value: value))
    }
}

extension Channel {
    /// Adds a watch, without a wait where that is the thread of the connection.
    fileprivate func watch(_ watch: CloseWatch) async throws {
        if eventLoop.inEventLoop {
            try pipeline.syncOperations.addHandler(watch, position: .first)
        } else {
            try await pipeline.addHandler(watch, position: .first)
        }
    }
}

/// The body of an answer that cannot be read to its end.
private struct BodyBrokeOff: Error {}

extension Response {
    /// Carries an answer, one that comes in parts as they come.
    init(_ answer: WireAnswer, on channel: any Channel) {
        self.init(answer)
        guard let stream = answer.stream else { return }
        body = ResponseBody(contentLength: stream.length) { writer in
            // A client that hangs up is noticed while nothing is written.
            let watch = CloseWatch { stream.close() }
            do {
                try await channel.watch(watch)
                defer {
                    channel.pipeline.removeHandler(watch, promise: nil)
                    stream.close()
                }
                var count = 0
                while let bytes = await stream.next() {
                    count += bytes.count
                    try await writer.write(ByteBuffer(bytes: bytes))
                }
                // Whoever waits for the rest learns by the connection's end that there is none.
                guard stream.length ?? count == count else { throw BodyBrokeOff() }
                try await writer.finish(nil)
            } catch {
                stream.close()
                throw error
            }
        }
    }

    /// Carries an answer.
    init(_ answer: WireAnswer) {
        var headers = HTTPFields()
        for (field, value) in answer.fields { headers.add(field.name, value) }
        // What is left of a body that is too large is not worth waiting for.
        if answer.status == 413 { headers.add(.connection, "close") }
        self.init(
            status: .init(code: answer.status),
            headers: headers,
            body: answer.body.isEmpty
                ? .init() : .init(byteBuffer: ByteBuffer(bytes: answer.body))
        )
    }
}
