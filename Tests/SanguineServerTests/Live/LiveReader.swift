import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel

@testable import SanguineServer

/// A client of `/v1/live` that reads block by block.
struct LiveReader {
    let status: Int
    let headers: HTTPHeaders
    private var chunks: HTTPClientResponse.Body.AsyncIterator
    private var text = ""
    /// The number from which to resume.
    private(set) var last: Int64 = 0

    /// Connects and waits for the response head.
    init(_ server: LiveServer, _ query: String = "", headers: [String: String] = [:]) async throws {
        let url = "http://127.0.0.1:\(server.ports.http)/v1/live\(query)"
        var request = HTTPClientRequest(url: url)
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        let response = try await HTTPClient.shared.execute(request, timeout: .patient(30))
        status = Int(response.status.code)
        self.headers = response.headers
        chunks = response.body.makeAsyncIterator()
    }

    init(_ guest: Guest, since: Int64? = nil, lastEventID: Int64? = nil) async throws {
        var headers = ["Authorization": "Bearer \(guest.session.accessToken)"]
        headers["Last-Event-ID"] = lastEventID.map(String.init)
        let query = since.map { "?since=\($0)" } ?? ""
        try await self.init(guest.server, query, headers: headers)
        last = lastEventID ?? since ?? 0
    }

    /// Returns the lines up to the next empty line, or `nil` at the end.
    mutating func next() async throws -> [String]? {
        while true {
            if let end = text.range(of: "\n\n") {
                let block = text[..<end.lowerBound].components(separatedBy: "\n")
                text = String(text[end.upperBound...])
                return block
            }
            guard let chunk = try await chunks.next() else { return nil }
            text += String(buffer: chunk)
        }
    }

    /// Returns the next change and skips other blocks.
    mutating func nextChange() async throws -> LiveChange? {
        while let block = try await next() {
            let id = block.first { $0.hasPrefix("id: ") }
            last = id.flatMap { FeedMark($0.dropFirst(4)) }?.number ?? last
            guard block.first == "event: change", let data = block.last else { continue }
            return try JSONDecoder().decode(LiveChange.self, from: Data(data.dropFirst(6).utf8))
        }
        return nil
    }

    /// Returns the changes up to a number.
    mutating func changes(through number: Int64) async throws -> [LiveChange] {
        var changes: [LiveChange] = []
        while last < number, let change = try await nextChange() { changes.append(change) }
        return changes
    }
}

extension Guest {
    /// Creates notes, each in its own operation, and returns the head.
    func createNotes(
        _ numbers: ClosedRange<Int>,
        in collection: String = "notes",
        text: String = "a"
    ) async throws -> Int64 {
        let operations = numbers.map { number in
            PushedOperation(
                id: Identifier.new(),
                sequence: Int64(number),
                lane: "notes",
                mutator: "record.create",
                arguments: [
                    "collection": .string(collection),
                    "id": .string("n\(number)"),
                    "fields": ["text": .string(text)],
                ]
            )
        }
        let request = PushRequest(device: device, operations: operations)
        return try await server.authority.push(account.id, request).head
    }
}
