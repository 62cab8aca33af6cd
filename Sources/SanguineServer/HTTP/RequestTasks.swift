import Hummingbird

/// Answers each request in a task of its own.
///
/// A task keeps the memory of its deepest call until it ends, and a connection's task lasts as long
/// as the connection. So an idle or a live connection would keep what the handler of its request
/// needed, about 24 KB.
struct RequestTasks<Base: HTTPResponder>: HTTPResponder where Base.Context: Sendable {
    let base: Base

    func respond(to request: Request, context: Base.Context) async throws -> Response {
        async let response = base.respond(to: request, context: context)
        return try await response
    }
}
