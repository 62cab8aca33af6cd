import HTTPTypes
import Hummingbird
import NIOCore
import SanguineAuthority

/// Compresses long responses for clients that accept gzip.
///
/// Only responses to reads are compressed. Responses to changes are `no-store`, and contain tokens
/// or repeat the request. Their compressed length would reveal secrets to an attacker who controls
/// part of the text (BREACH, CVE-2013-3587). Streams are not compressed.
///
/// A response is compressed as a whole before it waits for its reader, so that a compressor never
/// waits and only the compressed bytes count as waiting.
struct Compression: Sendable {
    /// Compresses a response if it qualifies.
    ///
    /// A response that qualifies varies with `Accept-Encoding`. Compression makes its validator
    /// weak, because the content is equivalent but its bytes differ (RFC 9110, section 8.8.3.3).
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

    /// Uses a body compressed earlier for a client that accepts gzip.
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
        response.headers[.contentLength] = nil  // The body determines it.
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
        return await LongWork.shared.perform(for: .compression) {
            Gzip.compress(bytes).map { ByteBuffer(bytes: $0) }
        }
    }

    /// The output of a writer that the body consumes.
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
