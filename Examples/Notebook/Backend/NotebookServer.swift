package import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Synchronization

/// An existing REST backend of an app: notebooks and notes, in memory.
///
/// It does not know Sanguine. Its JSON is in snake case, its bearer tokens expire after a number of
/// requests, and its errors are `{"error": {"code": …, "message": …}}`. It listens on loopback.
///
/// Mutable state: `accounts` and `calls`, guarded by their mutexes, never locked at the same time.
package final class NotebookServer: Sendable {
    /// The largest size of a request's body, in bytes.
    static let bodyBytes = 64 << 10
    /// The maximum number of rows in a page.
    static let pageSize = 50
    /// The number of requests that are recorded for ``requests(_:)``.
    static let rememberedCalls = 10_000

    private let port: Int
    private let now: @Sendable () -> Date
    private let onListening: @Sendable (Int) -> Void
    private let accounts: Mutex<Accounts>
    private let calls = Mutex<[String]>([])

    /// Creates a server; ``run()`` starts it.
    ///
    /// - Parameters:
    ///   - port: The port on 127.0.0.1; 0 picks a free one.
    ///   - passwords: The users and their passwords.
    ///   - requestsPerToken: The number of requests for which an access token is valid.
    ///   - now: Returns the time for `updated_at`.
    ///   - onListening: Called with the port once requests are accepted.
    package init(
        port: Int = 0,
        passwords: [String: String] = ["ada": "engine", "bob": "kite"],
        requestsPerToken: Int = 20,
        now: @escaping @Sendable () -> Date = { Date() },
        onListening: @escaping @Sendable (Int) -> Void
    ) {
        self.port = port
        self.now = now
        self.onListening = onListening
        accounts = Mutex(Accounts(passwords: passwords, requestsPerToken: requestsPerToken))
    }

    /// Serves until the task is cancelled.
    package func run() async throws {
        var logger = Logger(label: "notebook.backend")
        logger.logLevel = .critical
        let application = Application(
            router: router(),
            configuration: .init(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { [port, onListening] channel in
                onListening(channel.localAddress?.port ?? port)
            },
            logger: logger
        )
        try await application.run()
    }

    // MARK: - Changes by another device

    /// Changes a user's data, like another device of the user.
    @discardableResult
    package func change<Value: Sendable>(
        _ user: String,
        _ body: (inout Shelf) throws -> Value
    ) throws -> Value {
        try accounts.withLock { try $0.change(user, body) }
    }

    /// Makes all current access tokens expire.
    package func expireTokens() { accounts.withLock { $0.expireTokens() } }

    /// Returns the number of requests of a kind, such as `POST /token`.
    package func requests(_ request: String) -> Int {
        calls.withLock { calls in calls.count { $0 == request } }
    }

    // MARK: - Routes

    private func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.post("token") { [self] request, _ in
            try await answer(request) { body in
                let asked: Accounts.TokenRequest = try Self.decode(body)
                return .json(try accounts.withLock { try $0.token(for: asked) })
            }
        }
        addNotebooks(to: router)
        addNotes(to: router)
        return router
    }

    private func addNotebooks(to router: Router<BasicRequestContext>) {
        router.get("notebooks") { [self] request, _ in
            try await read(request) { shelf in
                let (cursor, limit) = Self.page(request)
                let page = try shelf.notebookPage(after: cursor, limit: limit)
                return .json(NotebookPage(notebooks: page.0, nextCursor: page.1))
            }
        }
        router.post("notebooks") { [self] request, _ in
            try await write(request) { shelf, body in
                let draft: NotebookDraft = try Self.decode(body)
                return .json(try shelf.addNotebook(draft.title), status: 201)
            }
        }
        router.patch("notebooks/:id") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await write(request) { shelf, body in
                let draft: NotebookDraft = try Self.decode(body)
                return .json(try shelf.renameNotebook(id, draft.title))
            }
        }
        router.delete("notebooks/:id") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await write(request) { shelf, _ in
                try shelf.deleteNotebook(id)
                return .done
            }
        }
    }

    private func addNotes(to router: Router<BasicRequestContext>) {
        router.get("notebooks/:id/notes") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await read(request) { shelf in
                let (cursor, limit) = Self.page(request)
                let page = try shelf.notePage(of: id, after: cursor, limit: limit)
                return .json(NotePage(notes: page.0, nextCursor: page.1))
            }
        }
        router.post("notebooks/:id/notes") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await write(request) { [now] shelf, body in
                let draft: NoteDraft = try Self.decode(body)
                let made = try shelf.addNote(
                    to: id,
                    draft.title ?? "",
                    draft.text ?? "",
                    at: now()
                )
                return .json(made, status: 201)
            }
        }
        router.get("notes/:id") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await read(request) { shelf in .json(try shelf.note(id)) }
        }
        router.patch("notes/:id") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await write(request) { [now] shelf, body in
                let draft: NoteDraft = try Self.decode(body)
                return .json(
                    try shelf.editNote(id, title: draft.title, text: draft.text, at: now())
                )
            }
        }
        router.delete("notes/:id") { [self] request, context in
            let id = context.parameters.get("id") ?? ""
            return try await write(request) { shelf, _ in
                try shelf.deleteNote(id)
                return .done
            }
        }
    }

    // MARK: - Requests

    private func read(
        _ request: Request,
        _ body: @Sendable (Shelf) throws -> Reply
    ) async throws -> Response {
        try await answer(request) { _ in
            try accounts.withLock { accounts in
                let user = try accounts.user(of: Self.token(request))
                return try accounts.change(user) { try body($0) }
            }
        }
    }

    /// Performs the body once for each `Idempotency-Key` of a user.
    private func write(
        _ request: Request,
        _ body: @Sendable (inout Shelf, Data) throws -> Reply
    ) async throws -> Response {
        try await answer(request) { data in
            try accounts.withLock { accounts in
                let user = try accounts.user(of: Self.token(request))
                let key = HTTPField.Name("Idempotency-Key").flatMap { request.headers[$0] }
                let name = "\(request.method) \(request.uri.path)"
                return try accounts.once(user, key: key, request: name) { shelf in
                    try body(&shelf, data)
                }
            }
        }
    }

    private func answer(
        _ request: Request,
        _ body: (Data) throws -> Reply
    ) async throws -> Response {
        calls.withLock { calls in
            calls.append("\(request.method) \(request.uri.path)")
            if calls.count > Self.rememberedCalls { calls.removeFirst() }
        }
        var request = request
        let reply: Reply
        do {
            let bytes = try await request.collectBody(upTo: Self.bodyBytes)
            reply = try body(Data(bytes.readableBytesView))
        } catch let refusal as Refusal {
            reply = refusal.reply
        }
        return Response(
            status: HTTPResponse.Status(code: reply.status),
            headers: reply.body.isEmpty ? [:] : [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: reply.body))
        )
    }

    private static func token(_ request: Request) -> String? {
        guard let field = request.headers[.authorization], field.hasPrefix("Bearer ") else {
            return nil
        }
        return String(field.dropFirst("Bearer ".count))
    }

    private static func page(_ request: Request) -> (cursor: String?, limit: Int) {
        let query = request.uri.queryParameters
        let limit = query["limit"].flatMap { Int($0) } ?? pageSize
        return (query["cursor"].map { String($0) }, min(max(1, limit), pageSize))
    }

    private static func decode<Value: Decodable>(_ body: Data) throws -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        do {
            return try decoder.decode(Value.self, from: body)
        } catch {
            throw Refusal(400, "bad_request", "The body does not fit this route.")
        }
    }
}

private struct NotebookPage: Encodable {
    let notebooks: [StoredNotebook]
    let nextCursor: String?
}

private struct NotePage: Encodable {
    let notes: [StoredNote]
    let nextCursor: String?
}

private struct NotebookDraft: Decodable {
    let title: String
}

private struct NoteDraft: Decodable {
    let title: String?
    let text: String?
}
