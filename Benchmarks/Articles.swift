import Foundation
import SanguineModel

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// A collection that everyone may read, with records as a feed has: a text, a photo and its
/// placeholder, and members that only the page of one article shows.
struct Articles: Sendable {
    static let collection = RecordCollection(
        "articles",
        access: .everyone,
        indexes: ["createdAt"],
        search: ["title"]
    )

    /// The digits of a title without the last one.
    static let digits = 7
    private static let path = "/v1/collections/articles/records"
    private static let text = """
        The quick answer is on the first page, and the long one takes a walk along the river, \
        where it was found by accident in the spring of last year.
        """
    private static let summary = "What it says in one sentence, for readers who share it."

    let server: BenchmarkedServer

    /// Returns the title of an article, which begins with the digits of its number.
    static func title(_ number: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, 8 - digits.count)) + digits + " by the river"
    }

    private static func fields(_ number: Int, titled title: String) -> String {
        """
        {"title":"\(title)","text":"\(text)","author":"author-\(number % 1_000)",\
        "photo":"\(BlobHash.text(number))","placeholder":"3OcRJYB4d3h/iIeHeEh3eIhw+j2w",\
        "summary":"\(summary)","language":"en","tags":["river","walk","spring"],\
        "edited":false,"version":\(number % 7),"source":"https://example.org/articles/\(number)"}
        """
    }

    // MARK: - Writing

    /// Creates articles, a hundred with each request, for all accounts at the same time.
    func create(_ numbers: Range<Int>) async throws {
        let accounts = server.tokens.count
        try await withThrowingTaskGroup(of: Void.self) { group in
            for account in 0..<accounts {
                group.addTask {
                    var sequence = 0
                    let first = numbers.lowerBound + 100 * account
                    for start in stride(from: first, to: numbers.upperBound, by: 100 * accounts) {
                        let part = start..<min(numbers.upperBound, start + 100)
                        let operations = part.map { number in
                            sequence += 1
                            return Self.operation(sequence, "a\(number)", Self.title(number))
                        }
                        let device = "bench-articles-\(numbers.lowerBound)-\(account)"
                        try await push(operations, device, server.tokens[account])
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    private func push(_ operations: [String], _ device: String, _ token: String) async throws {
        var request = URLRequest(url: try url("/v1/sync/push"))
        request.httpMethod = "POST"
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.httpBody = Data(Self.body(device, operations).utf8)
        let (data, _) = try await URLSession.shared.data(for: request)
        let answer = try JSONDecoder().decode(PushAnswer.self, from: data)
        guard answer.results.allSatisfy({ $0.status == .applied }) else {
            throw BenchmarkError.wrong("create")
        }
    }

    /// Returns a request that creates one article, of a number that a device uses once.
    func pushRequest(_ device: String, _ number: Int) -> String {
        let id = "\(device)-\(number)"
        let body = Self.body(device, [Self.operation(number + 1, id, "written \(number)")])
        return """
            POST /v1/sync/push HTTP/1.1\r
            Host: localhost\r
            Authorization: Bearer \(server.tokens[0])\r
            Content-Type: application/json\r
            Content-Length: \(body.utf8.count)\r
            \r
            \(body)
            """
    }

    private static func operation(_ sequence: Int, _ id: String, _ title: String) -> String {
        """
        {"id":"\(Identifier(at: SystemWallClock().now()))","sequence":\(sequence),\
        "lane":"articles","mutator":"record.create","arguments":{"collection":"articles",\
        "id":"\(id)","fields":\(fields(sequence, titled: title))}}
        """
    }

    private static func body(_ device: String, _ operations: [String]) -> String {
        #"{"device":"\#(device)","operations":[\#(operations.joined(separator: ","))]}"#
    }

    // MARK: - Reading

    /// A page, as far as it is compared.
    struct Page: Decodable {
        struct Item: Decodable {
            var id: String
        }

        var items: [Item]
        /// The size of the response's body.
        var bytes = 0

        private enum CodingKeys: CodingKey { case items }
    }

    /// Reads a page.
    func list(_ query: String) async throws -> Page {
        var request = URLRequest(url: try url(Self.path + query))
        request.setValue("Bearer \(server.tokens[0])", forHTTPHeaderField: "Authorization")
        let (data, _) = try await URLSession.shared.data(for: request)
        var page = try JSONDecoder().decode(Page.self, from: data)
        page.bytes = data.count
        return page
    }

    /// Returns a request for a page.
    func listRequest(_ query: String) -> String {
        """
        GET \(Self.path)\(query) HTTP/1.1\r
        Host: localhost\r
        Authorization: Bearer \(server.tokens[0])\r
        \r\n
        """
    }

    /// Returns the cursor of the next page in a response; `nil` in that of the last page.
    static func cursor(in response: String) -> Substring? {
        // It follows the records.
        let end = String(decoding: response.utf8.suffix(1_000), as: UTF8.self)
        return end.firstMatch(of: /"nextCursor":"([^"]+)"/)?.1
    }

    private func url(_ path: String) throws -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(server.port)\(path)") else {
            throw BenchmarkError.noServer("it has no address")
        }
        return url
    }
}

/// Texts that look like the hashes of files.
private enum BlobHash {
    static func text(_ number: Int) -> String {
        var state = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 | 1
        return (0..<4).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let digits = String(state, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        .joined()
    }
}
