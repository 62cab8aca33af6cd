import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineModel

/// The complete events of a streamed answer that a reader has, byte for byte, without comments.
///
/// ```swift
/// var seen = SeenStream()
/// await api.read(api.streamed(.GET, "/v1/calls/a-key", as: guest, after: seen), into: &seen)
/// ```
///
/// A problem without an id is not an end. It is not among the events, and the reader retries.
struct SeenStream: Hashable, Sendable {
    /// The events, each with the empty line that ends it.
    private(set) var events: [String] = []
    /// Whether the server asked the reader to try again.
    private(set) var isPutOff = false
    private var rest: [UInt8] = []

    /// All events as text.
    var text: String { events.joined() }

    /// The number of events that are parts of the answer.
    var parts: Int { events.count - ends }

    /// The number of events that are an end.
    private(set) var ends = 0

    /// The id of the last event.
    var lastID: String? { events.last.map { Self.id(of: $0) } }

    /// The ids of all events.
    var ids: [String] { events.map { Self.id(of: $0) } }

    /// The data of the last event, if it is the end.
    var end: JSONValue? { ends == 0 ? nil : events.last.flatMap { Self.data(of: $0) } }

    /// The charge that the end reports.
    var charged: Int64 { end?["charged"]?.integer ?? 0 }

    /// The text of the answer so far.
    var answer: String {
        events.prefix(parts).map { Self.data(of: $0)?["text"]?.string ?? "" }.joined()
    }

    /// Appends the next bytes.
    mutating func take(_ bytes: some Sequence<UInt8>) {
        for byte in bytes {
            rest.append(byte)
            guard byte == 0x0A, rest.count > 1, rest[rest.count - 2] == 0x0A else { continue }
            take(event: String(decoding: rest, as: UTF8.self))
            rest = []
        }
    }

    /// Drops the incomplete event of a lost connection.
    mutating func cut() {
        rest = []
        isPutOff = false
    }

    private mutating func take(event: String) {
        guard !event.hasPrefix(":") else { return }
        guard event.hasPrefix("id: ") else {
            isPutOff = true
            return
        }
        events.append(event)
        if event.contains("\nevent: result\n") || event.contains("\nevent: problem\n") { ends += 1 }
    }

    private static func id(of event: String) -> String {
        String(event.dropFirst("id: ".count).prefix { $0 != "\n" })
    }

    private static func data(of event: String) -> JSONValue? {
        guard let data = event.firstRange(of: "\ndata: ") else { return nil }
        return try? JSONDecoder().decode(JSONValue.self, from: Data(event[data.upperBound...].utf8))
    }
}

extension API {
    /// Returns the request for a streamed call of the function under the key.
    func streamed(
        _ function: String,
        _ question: String,
        key: String,
        as guest: Guest,
        in thread: Identifier? = nil,
        after seen: SeenStream = SeenStream()
    ) throws -> HTTPClientRequest {
        var request = events("/v1/functions/\(function)", as: guest, after: seen)
        request.method = .POST
        request.headers.add(name: "Idempotency-Key", value: key)
        request.headers.add(name: "Content-Type", value: "application/json")
        let body = FunctionRequest(input: Ask.Input(question: question), thread: thread)
        request.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(body)))
        return request
    }

    /// Returns the request for the events of an earlier call.
    func streamed(
        key: String,
        as guest: Guest,
        after seen: SeenStream = SeenStream()
    ) -> HTTPClientRequest {
        events("/v1/calls/\(key)", as: guest, after: seen)
    }

    private func events(
        _ path: String,
        as guest: Guest,
        after seen: SeenStream
    )
        -> HTTPClientRequest
    {
        var request = HTTPClientRequest(url: base + path)
        request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
        request.headers.add(name: "Accept", value: "text/event-stream")
        if let id = seen.lastID { request.headers.add(name: "Last-Event-ID", value: id) }
        return request
    }

    /// Reads a streamed answer until it ends or breaks, or the reader has enough.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - seen: The events read so far, to which the new ones are appended.
    ///   - limit: The number of bytes to read, all by default.
    ///   - goOn: Called at the beginning and after each piece; `false` closes the connection.
    /// - Returns: The status, or `nil` without a response.
    @discardableResult
    func read(
        _ request: HTTPClientRequest,
        into seen: inout SeenStream,
        limit: Int = .max,
        while goOn: (SeenStream) async -> Bool = { _ in true }
    ) async -> Int? {
        var status: Int?
        var left = limit
        seen.cut()
        do {
            let response = try await http.execute(request, timeout: .patient(60))
            status = Int(response.status.code)
            guard status == 200, await goOn(seen) else { return status }
            // The request's timeout is the bound.
            for try await part in response.body {  // tidy: allow unbounded-wait: see above.
                seen.take(part.readableBytesView.prefix(left))
                left -= part.readableBytes
                guard left > 0, await goOn(seen) else { break }
            }
        } catch {
            // The connection broke.
        }
        return status
    }
}
