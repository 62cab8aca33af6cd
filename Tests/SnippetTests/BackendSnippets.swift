import Foundation
import Sanguine
import SanguineTesting
import Synchronization
import TestSupport
import Testing

/// The tokens of the app's user, in the app's existing storage.
actor TokenStore {
    private(set) var accessToken: String? = "1"
    private(set) var renewals = 0

    func renew() async throws {
        renewals += 1
        accessToken = "2"
    }
}

struct NotSignedIn: Error {}

struct APIError: Decodable {
    struct Body: Decodable {
        var code: String
        var message: String
        var retryable: Bool?
    }

    var error: Body
}

struct Article: Codable, Sendable, Equatable, Identifiable {
    var id: Int
    var authorName: String
    var publishedAt: Date
}

extension ValueQuery where Value == Article {
    static func article(_ id: Int) -> Self {
        ValueQuery("article", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("articles/\(id)")
        }
    }
}

extension ValueQuery where Value == [Article] {
    static let legacy = ValueQuery("legacy-articles") { request in
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .secondsSince1970
        return try await request.get("v1/articles", decoder: decoder)
    }
}

struct ArticleDraft: Codable, Sendable {
    var authorName: String
}

struct EditArticle: RemoteMutation {
    static let name = "article.edit"
    let article: Int
    let draft: ArticleDraft

    func effects(on view: inout MutationEffects) {
        view.update(.article(article)) { $0.authorName = draft.authorName }
    }

    func send(_ request: MutationContext) async throws {
        let edited = try await request.send("PATCH", "articles/\(article)", draft, as: Article.self)
        request.settle(.article(article), edited)
    }
}

struct SetCover: RemoteMutation {
    static let name = "article.cover"
    let article: Int
    let photo: URL

    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws {
        try await request.post(
            "articles/\(article)/cover",
            .multipart([
                .field("caption", "Cover"),
                .file("photo", at: photo, type: "image/jpeg"),
            ])
        )
    }
}

// By offset: the cursor is the number of items before the page.
extension ListQuery where Item == Article {
    static let newest = ListQuery("newest") { request, page in
        let offset = page.cursor.flatMap { Int($0) } ?? 0
        let items: [Article] = try await request.get(
            "articles",
            query: [
                URLQueryItem(name: "offset", value: "\(offset)"),
                URLQueryItem(name: "limit", value: "\(page.limit)"),
            ]
        )
        let hasMore = items.count == page.limit
        return ListPage(items: items, hasMore: hasMore, nextCursor: "\(offset + items.count)")
    }
}

struct NumberedPage: Codable, Sendable {
    var items: [Article]
    var totalPages: Int
}

// By number: all pages have the same size, because the number counts pages of that size.
extension ListQuery where Item == Article {
    static let popular = ListQuery("popular", size: 20) { request, page in
        let number = page.cursor.flatMap { Int($0) } ?? 1
        let answer: NumberedPage = try await request.get(
            "articles/popular",
            query: [
                URLQueryItem(name: "page", value: "\(number)"),
                URLQueryItem(name: "per_page", value: "20"),
            ]
        )
        let hasMore = number < answer.totalPages
        return ListPage(items: answer.items, hasMore: hasMore, nextCursor: "\(number + 1)")
    }
}

struct CursorPage: Codable, Sendable {
    var data: [Article]
    var nextCursor: String?
}

// By cursor: the value from the previous page.
extension ListQuery where Item == Article {
    static let followed = ListQuery("followed") { request, page in
        let cursor = URLQueryItem(name: "cursor", value: page.cursor)
        let answer: CursorPage = try await request.get(
            "articles/followed",
            query: page.cursor == nil ? [] : [cursor]
        )
        let next = answer.nextCursor
        return ListPage(items: answer.data, hasMore: next != nil, nextCursor: next)
    }
}

struct GraphQL<Data: Codable & Sendable>: Codable, Sendable {
    struct Failure: Codable, Sendable {
        var message: String
    }

    var data: Data?
    var errors: [Failure]?
}

struct GraphQLQuestion<Variables: Encodable & Sendable>: Encodable, Sendable {
    var query: String
    var variables: Variables
}

struct GraphQLError: ClassifiedError {
    var message: String
    var errorClass: ErrorClass { .refused }
}

extension GraphQL {
    func content() throws -> Data {
        guard let data else { throw GraphQLError(message: errors?.first?.message ?? "no data") }
        return data
    }
}

struct Renamed: Codable, Sendable {
    struct Article: Codable, Sendable { var id: String }
    var rename: Article
}

struct RenameAuthor: RemoteMutation {
    static let name = "graph.renameAuthor"
    let article: Int
    let author: String

    func effects(on view: inout MutationEffects) {
        view.update(.graph(article)) { $0.authorName = author }
    }

    func send(_ request: MutationContext) async throws {
        let question = GraphQLQuestion(
            query: "mutation($id: ID!, $name: String!) { rename(id: $id, name: $name) { id } }",
            variables: ["id": "\(article)", "name": author]
        )
        let answer = try await request.post("graphql", question, as: GraphQL<Renamed>.self)
        _ = try answer.content()
    }
}

struct ArticleData: Codable, Sendable {
    var article: Article
}

extension ValueQuery where Value == Article {
    static func graph(_ id: Int) -> Self {
        ValueQuery("graph-article", id, policy: .fresh(for: .minutes(5))) { request in
            let question = GraphQLQuestion(
                query: "query($id: Int!) { article(id: $id) { id author_name published_at } }",
                variables: ["id": id]
            )
            let answer: GraphQL<ArticleData> = try await request.post("graphql", question)
            return try answer.content().article
        }
    }
}

/// The samples of the guide to using an existing API.
@Suite("Existing API snippets", .bounded)
struct BackendSnippets {
    private static let article = #"""
        {"id":1,"author_name":"Ada","published_at":"2026-01-02T03:04:05.25Z"}
        """#

    private static func client(
        _ tokens: TokenStore = TokenStore(),
        log: @escaping @Sendable (String) -> Void = { _ in },
        _ answer: @escaping @Sendable (TransportRequest) -> (status: Int, body: String)
    ) throws -> (client: SanguineClient, network: ScriptedTransport) {
        let network = ScriptedTransport { request in
            let (status, body) = answer(request)
            return .respond(TransportResponse(status: status, body: Data(body.utf8)))
        }
        let url = URL(string: "https://api.example.org/v2")
        var configuration = SanguineClient.Configuration()
        configuration.baseURL = url
        configuration.decoder.keyDecodingStrategy = .convertFromSnakeCase
        configuration.encoder.keyEncodingStrategy = .convertToSnakeCase

        configuration.authorize = { request in
            guard let token = await tokens.accessToken else { throw NotSignedIn() }
            request.headers["Authorization"] = "Bearer \(token)"
        }
        configuration.refresh = { try await tokens.renew() }

        configuration.errorBody = { response in
            let decoder = JSONDecoder()
            guard let body = try? decoder.decode(APIError.self, from: response.body) else {
                return nil  // As without this closure: RFC 9457, or only the status.
            }
            return ErrorBody(
                code: body.error.code,
                detail: body.error.message,
                errorClass: body.error.retryable == true ? .retryable : nil
            )
        }

        let logging: Interceptor = { request, next in
            let response = try await next(request)
            log("\(request.method) \(request.url.path()) \(response.status)")
            return response
        }
        configuration.interceptors = [logging]

        configuration.isInMemory = true
        configuration.transport = network
        configuration.register(EditArticle.self, SetCover.self)
        configuration.register(RenameAuthor.self)
        return (try SanguineClient(configuration), network)
    }

    @Test func `an article is decoded from snake case with fractional seconds`() async throws {
        let (client, network) = try Self.client { _ in (200, Self.article) }
        let article = try await client.value(of: .article(1))

        #expect(article.authorName == "Ada")
        #expect(article.publishedAt == Date(timeIntervalSince1970: 1_767_323_045.25))
        #expect(network.requests.first?.headers["Authorization"] == "Bearer 1")
    }

    @Test func `a query can decode other date formats`() async throws {
        let (client, _) = try Self.client { _ in
            (200, #"[{"id":1,"authorName":"Ada","publishedAt":7}]"#)
        }

        #expect(
            try await client.value(of: .legacy).first?.publishedAt == Date(timeIntervalSince1970: 7)
        )
    }

    @Test func `a token is refreshed`() async throws {
        let tokens = TokenStore()
        let log = Mutex<[String]>([])
        let (client, _) = try Self.client(tokens, log: { line in log.withLock { $0.append(line) } })
        {
            $0.headers["Authorization"] == "Bearer 2" ? (200, Self.article) : (401, "")
        }
        _ = try await client.value(of: .article(1))

        #expect(await tokens.renewals == 1)
        #expect(log.withLock { $0 } == ["GET /v2/articles/1 401", "GET /v2/articles/1 200"])
    }

    @Test func `an error contains the backend's code and message`() async throws {
        let (client, _) = try Self.client { _ in
            (423, #"{"error":{"code":"locked","message":"Ada edits it."}}"#)
        }
        var shown: [String] = []
        func show(_ text: String) { shown.append(text) }
        func log(_ text: String) { shown.append(text) }

        do throws(SanguineError) {
            _ = try await client.value(of: .article(1))
        } catch {
            switch error.code {
            case "locked": show("Somebody edits it.")
            default: show(error.description)
            }
            log("status \(error.response?.status ?? 0), \(error.response?.body.count ?? 0) bytes")
        }

        #expect(shown == ["Somebody edits it.", "status 423, 53 bytes"])
    }

    @Test func `an article is edited`() async throws {
        let (client, network) = try Self.client { _ in (200, Self.article) }
        let receipt = try client.perform(
            EditArticle(article: 1, draft: ArticleDraft(authorName: "Ada"))
        )
        let outcome = try await receipt.outcome

        #expect(outcome == .applied)
        #expect(network.requests.first?.method == "PATCH")
        #expect(network.requests.first?.body == Data(#"{"author_name":"Ada"}"#.utf8))
    }

    @Test func `a cover is uploaded as a form`() async throws {
        let photo = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try Data([0xFF, 0xD8]).write(to: photo)
        defer { try? FileManager.default.removeItem(at: photo) }
        let (client, network) = try Self.client { _ in (204, "") }
        let outcome = try await client.perform(SetCover(article: 1, photo: photo)).outcome

        let type = network.requests.first?.headers["Content-Type"]
        #expect(outcome == .applied)
        #expect(type?.hasPrefix("multipart/form-data; boundary=") == true)
    }

    private static func items(_ range: Range<Int>) -> String {
        let items = range.map { id in
            #"{"id":\#(id),"author_name":"Ada","published_at":"2026-01-02T03:04:05Z"}"#
        }
        return "[\(items.joined(separator: ","))]"
    }

    private static func value(_ name: String, of request: TransportRequest) -> Int {
        let components = URLComponents(url: request.url, resolvingAgainstBaseURL: false)
        let item = components?.queryItems?.first { $0.name == name }
        return item?.value.flatMap { Int($0) } ?? 0
    }

    @Test func `a list with offsets contains each row once`() async throws {
        let (client, _) = try Self.client { request in
            let offset = Self.value("offset", of: request)
            let end = min(45, offset + Self.value("limit", of: request))
            return (200, Self.items(offset..<end))
        }
        for _ in 0..<3 { try await client.loadNext(.newest) }

        #expect(!client.snapshot(of: .newest).hasMore)
        #expect(client.snapshot(of: .newest).items.map(\.id) == Array(0..<45))
    }

    @Test func `a list with page numbers contains each row once`() async throws {
        let (client, _) = try Self.client { request in
            let first = (Self.value("page", of: request) - 1) * 20
            return (200, #"{"items":\#(Self.items(first..<min(45, first + 20))),"total_pages":3}"#)
        }
        for _ in 0..<3 { try await client.loadNext(.popular) }

        #expect(!client.snapshot(of: .popular).hasMore)
        #expect(client.snapshot(of: .popular).items.map(\.id) == Array(0..<45))
    }

    @Test func `a list with cursors contains each row once`() async throws {
        let (client, _) = try Self.client { request in
            let first = Self.value("cursor", of: request)
            let next = first < 40 ? #","next_cursor":"\#(first + 20)""# : ""
            return (200, #"{"data":\#(Self.items(first..<min(45, first + 20)))\#(next)}"#)
        }
        for _ in 0..<3 { try await client.loadNext(.followed) }

        #expect(!client.snapshot(of: .followed).hasMore)
        #expect(client.snapshot(of: .followed).items.map(\.id) == Array(0..<45))
    }

    @Test func `a GraphQL query is a query`() async throws {
        let (client, network) = try Self.client { _ in
            (200, #"{"data":{"article":\#(Self.article)}}"#)
        }
        #expect(try await client.value(of: .graph(1)).authorName == "Ada")
        #expect(network.requests.first?.method == "POST")
    }

    @Test func `a GraphQL mutation is visible at once and rolled back when it is refused`()
        async throws
    {
        let (client, network) = try Self.client { request in
            let asks = String(decoding: request.body ?? Data(), as: UTF8.self)
            return asks.contains("mutation")
                ? (200, #"{"errors":[{"message":"Not yours."}]}"#)
                : (200, #"{"data":{"article":\#(Self.article)}}"#)
        }
        _ = try await client.value(of: .graph(1))
        let receipt = try client.perform(RenameAuthor(article: 1, author: "Bob"))
        #expect(client.cached(.graph(1))?.authorName == "Bob")

        guard case .refused(let problem) = try await receipt.outcome else {
            Issue.record("It was not refused.")
            return
        }
        #expect(problem.detail.contains("Not yours."))
        #expect(client.cached(.graph(1))?.authorName == "Ada")
        let sent = network.requests.compactMap(\.body).map { String(decoding: $0, as: UTF8.self) }
        #expect(sent.contains { $0.contains(#""name":"Bob""#) })
    }

    @Test func `a GraphQL error is a refusal`() async throws {
        let (client, network) = try Self.client { _ in (200, #"{"errors":[{"message":"No."}]}"#) }
        let error = await #expect(throws: SanguineError.self) {
            try await client.value(of: .graph(1))
        }

        #expect(error?.errorClass == .refused)
        #expect((error?.underlying as? GraphQLError)?.message == "No.")
        #expect(network.requests.count == 1)
    }
}
