import HTTPTypes
import Hummingbird
import NIOCore
import SanguineAuthority

/// Compresses long answers for clients that take gzip.
///
/// What is read is compressed, and what a change is answered with is not: those answers are
/// `no-store`, hold tokens or repeat what was sent, and their length would tell one who chooses
/// some of the text about the rest (BREACH, CVE-2013-3587). Streams go out as they come.
///
/// An answer is compressed whole before it waits for its reader, so that compressors never wait,
/// and only the compressed bytes count as waiting.
struct Compression: Sendable {
    /// Compresses an answer if it is one of those.
    ///
    /// It varies with `Accept-Encoding` from then on, and its validator is a weak one: the answer
    /// means the same, and has other bytes (RFC 9110, section 8.8.3.3).
    func compress(_ response: Response, to request: Request) async throws -> Response {
        guard let length = response.body.contentLength, length > EdgeLimits.uncompressedBytes,
            isText(response.headers[.contentType]), response.headers[.contentEncoding] == nil,
            response.headers[.cacheControl]?.contains("no-store") != true
        else { return response }
        var compressed = response
        compressed.headers[values: .vary].append("Accept-Encoding")
        guard request.method != .head, length <= EdgeLimits.compressedBytes,
            AcceptedEncoding.takesGzip(request.headers[values: .acceptEncoding]),
            let bytes = try await gzip(response.body)
        else { return compressed }
        Self.put(bytes, into: &compressed)
        return compressed
    }

    /// Gives a client that takes gzip what was compressed before.
    static func use(_ compressed: [UInt8]?, for response: inout Response, to request: Request) {
        guard let compressed, response.status == .ok, request.method != .head,
            AcceptedEncoding.takesGzip(request.headers[values: .acceptEncoding])
        else { return }
        response.headers[values: .vary].append("Accept-Encoding")
        put(ByteBuffer(bytes: compressed), into: &response)
    }

    private static func put(_ bytes: ByteBuffer, into response: inout Response) {
        if let tag = response.headers[.eTag], !tag.hasPrefix("W/") {
            response.headers[.eTag] = "W/\(tag)"
        }
        response.headers[.contentEncoding] = "gzip"
        response.headers[.contentLength] = nil  // That of the body holds.
        response.body = ResponseBody(byteBuffer: bytes)
    }

    private func isText(_ type: String?) -> Bool {
        guard let type = type?.prefix(while: { $0 != ";" && $0 != " " }) else { return false }
        return type == "application/json" || type == "application/openmetrics-text"
            || type.hasPrefix("text/") && type != "text/event-stream"
    }

    private func gzip(_ body: ResponseBody) async throws -> ByteBuffer? {
        let collected = Collected()
        try await body.write(Writer(collected: collected))
        let bytes = Array(collected.bytes.readableBytesView)
        return await LongWork.shared.perform(for: nil) {
            Gzip.compress(bytes).map { ByteBuffer(bytes: $0) }
        }
    }

    /// The bytes of a body, which consumes its writer.
    private final class Collected {
        // Confined to the task that writes the body.
        var bytes = ByteBuffer()
    }

    private struct Writer: ResponseBodyWriter {
        let collected: Collected

        mutating func write(_ buffer: ByteBuffer) async throws {
            collected.bytes.writeImmutableBuffer(buffer)
        }

        consuming func finish(_ trailers: HTTPFields?) async throws {}
    }
}
