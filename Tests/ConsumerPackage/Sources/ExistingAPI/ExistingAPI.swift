import Foundation
import Sanguine

#if canImport(FoundationNetworking)
import FoundationNetworking  // URLSession, on Linux.
#endif

// The messages of the API.
struct Article: Codable, Sendable, Equatable, Identifiable {
    var id: Int
    var authorName: String
    var likes: Int
    var publishedAt: Date
}

struct Comment: Codable, Sendable, Equatable, Identifiable {
    var id: String
    var text: String
}

struct CommentPage: Decodable {
    var comments: [Comment]
    var nextCursor: String?
}

struct APIError: Decodable {
    struct Content: Decodable {
        var code: String
        var message: String
    }
    var error: Content
}

// The app's own sign-in.
actor Tokens {
    struct NotSignedIn: Error {}
    struct Renewed: Decodable { var accessToken: String }

    private(set) var accessToken: String?
    private let refreshURL: URL

    init(accessToken: String?, refreshURL: URL) {
        self.accessToken = accessToken
        self.refreshURL = refreshURL
    }

    // Called at sign-in, and with nil at sign-out.
    func set(_ token: String?) { accessToken = token }

    func renew() async throws {
        let (data, response) = try await URLSession.shared.data(from: refreshURL)
        guard (response as? HTTPURLResponse)?.statusCode == 200 else {
            throw URLError(.badServerResponse)  // Retried, as any network failure.
        }
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        accessToken = try decoder.decode(Renewed.self, from: data).accessToken
    }
}

// One client for the whole app.
func makeClient(_ api: URL, _ tokens: Tokens) throws -> SanguineClient {
    var configuration = SanguineClient.Configuration()
    configuration.baseURL = api
    configuration.decoder.keyDecodingStrategy = .convertFromSnakeCase
    configuration.encoder.keyEncodingStrategy = .convertToSnakeCase
    configuration.authorize = { request in
        guard let token = await tokens.accessToken else { throw Tokens.NotSignedIn() }
        request.headers["Authorization"] = "Bearer \(token)"
    }
    configuration.refresh = { try await tokens.renew() }
    configuration.errorBody = { response in
        let body = try? JSONDecoder().decode(APIError.self, from: response.body)
        return body.map { ErrorBody(code: $0.error.code, detail: $0.error.message) }
    }
    configuration.register(LikeArticle.self, AddComment.self)
    return try SanguineClient(configuration)
}

// Queries.
extension ValueQuery where Value == Article {
    static func article(_ id: Int) -> Self {
        ValueQuery("article", id, policy: .fresh(for: .minutes(5)).stored(.onDisk)) { request in
            try await request.get("articles/\(id)")
        }
    }
}

extension ListQuery where Item == Comment {
    static func comments(of article: Int) -> Self {
        ListQuery("comments", article, policy: .fresh(for: .seconds(30))) { request, page in
            let cursor = page.cursor.map { [URLQueryItem(name: "cursor", value: $0)] } ?? []
            let answer: CommentPage = try await request.get(
                "articles/\(article)/comments",
                query: cursor
            )
            return ListPage(
                items: answer.comments,
                hasMore: answer.nextCursor != nil,
                nextCursor: answer.nextCursor
            )
        }
    }
}

// Mutations: visible when `perform` returns, sent when there is a network.
struct LikeArticle: RemoteMutation {
    static let name = "article.like"
    let article: Int

    func effects(on view: inout MutationEffects) {
        view.update(.article(article)) { $0.likes += 1 }
    }

    func send(_ request: MutationContext) async throws {
        try await request.post("articles/\(article)/like")
    }
}

struct AddComment: RemoteMutation {
    static let name = "comment.add"
    let article: Int
    let comment: Comment

    func effects(on view: inout MutationEffects) {
        view.insert(comment, into: .comments(of: article))
    }

    func send(_ request: MutationContext) async throws {
        let made = try await request.post(
            "articles/\(article)/comments",
            comment,
            as: Comment.self
        )
        request.replaceID(comment.id, by: made.id)
        request.settle(.comments(of: article), row: made)
    }
}

// A screen.
@MainActor
func openArticle(_ id: Int, in client: SanguineClient) throws {
    let article = client.model(.article(id))  // @Observable: value, phase, error, refresh()
    let comments = client.model(.comments(of: id))  // items, hasMore, loadNext()
    print(article.value?.authorName ?? "…", comments.items.count)

    try client.perform(LikeArticle(article: id))
    let comment = Comment(id: UUID().uuidString, text: "Well said.")
    try client.perform(AddComment(article: id, comment: comment))
}
