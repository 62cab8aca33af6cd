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
    static let sanguineTag = named("Sanguine-Tag")
    static let methodOverride = named("X-HTTP-Method-Override")
    static let sanguineBlob = named("Sanguine-Blob")
    static let tusChecksumAlgorithm = named("Tus-Checksum-Algorithm")
    static let tusExtension = named("Tus-Extension")
    static let tusMaxSize = named("Tus-Max-Size")
    static let tusResumable = named("Tus-Resumable")
    static let tusVersion = named("Tus-Version")
    static let uploadChecksum = named("Upload-Checksum")
    static let uploadDeferLength = named("Upload-Defer-Length")
    static let uploadExpires = named("Upload-Expires")
    static let uploadLength = named("Upload-Length")
    static let uploadMetadata = named("Upload-Metadata")
    static let uploadOffset = named("Upload-Offset")
    static let userID = named("X-User-Id")
    /// On every response; see Documentation/Protocol.md.
    static let requestID = named("X-Request-Id")
    static let rateLimit = named("RateLimit")
    static let rateLimitPolicy = named("RateLimit-Policy")
    static let cacheStatus = named("Cache-Status")
    static let resourcePolicy = named("Cross-Origin-Resource-Policy")
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
    /// Adds a field that does not exist yet, without searching for it as the subscript does.
    mutating func add(_ name: HTTPField.Name, _ value: String) {
        append(HTTPField(name: name, value: value))
    }
}

extension Channel {
    /// Adds a watch, synchronously if this is the connection's thread.
    fileprivate func watch(_ watch: CloseDetector) async throws {
        if eventLoop.inEventLoop {
            try pipeline.syncOperations.addHandler(watch, position: .first)
        } else {
            try await pipeline.addHandler(watch, position: .first)
        }
    }
}

/// A body ended before its announced length.
private struct BodyBrokeOff: Error {}

extension Response {
    /// Creates a response, which streams its body if the answer has a stream.
    init(_ answer: WireResponse, on channel: any Channel) {
        self.init(answer)
        guard let stream = answer.stream else { return }
        body = ResponseBody(contentLength: stream.length) { writer in
            // Detects a disconnect while nothing is being written.
            let watch = CloseDetector { stream.close() }
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
                // Closes the connection, so that the client does not wait for the missing rest.
                guard stream.length ?? count == count, stream.isComplete() else {
                    throw BodyBrokeOff()
                }
                try await writer.finish(nil)
            } catch {
                stream.close()
                throw error
            }
        }
    }

    /// Creates a response with a body in memory.
    init(_ answer: WireResponse) {
        var headers = HTTPFields()
        for (field, value) in answer.fields { headers.add(field.name, value) }
        // The rest of a body that is too large is not read.
        if answer.status == 413 { headers.add(.connection, "close") }
        self.init(
            status: .init(code: answer.status),
            headers: headers,
            body: answer.body.isEmpty
                ? .init() : .init(byteBuffer: ByteBuffer(bytes: answer.body))
        )
    }
}
