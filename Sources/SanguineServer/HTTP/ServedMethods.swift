import HTTPTypes
import Hummingbird
import SanguineAuthority
import Synchronization

/// Responds with 405 and `Allow` (RFC 9110, sections 10.2.1 and 15.5.6) to requests for an existing
/// path with any other method.
///
/// HEAD is served wherever GET is. Mutable state: `paths`, guarded by its mutex; it is set once,
/// when the routes are known.
final class ServedMethods: RouterMiddleware {
    private struct Path: Sendable {
        /// The path's components; `nil` for a parameter.
        let parts: [Substring?]
        var methods: Set<String>

        func matches(_ path: [Substring]) -> Bool {
            path.count == parts.count && zip(path, parts).allSatisfy { $1 == nil || $0 == $1 }
        }
    }

    private let paths = Mutex<[Path]>([])

    /// Stores the routes of a router, after all of them have been added.
    func learn(_ router: Router<ServerContext>) {
        let served = Dictionary(grouping: router.routes) { $0.path.description }
        let paths = served.map { path, routes in
            Path(
                parts: path.split(separator: "/").map { part in
                    part.hasPrefix(":") || part.hasPrefix("{") ? nil : part
                },
                methods: Set(routes.map(\.method.rawValue))
            )
        }
        self.paths.withLock { $0 = paths }
    }

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as HTTPError where error.status == .notFound {
            guard let allowed = allowed(at: request.uri.path) else { throw error }
            return Response(.refusal(allowing: allowed))
        }
    }

    /// Returns the methods of a path; `nil` if it has none.
    private func allowed(at path: String) -> Set<String>? {
        let parts = path.split(separator: "/")
        var methods = paths.withLock { paths in
            paths.filter { $0.matches(parts) }.reduce(into: Set()) { $0.formUnion($1.methods) }
        }
        if methods.contains("GET") { methods.insert("HEAD") }
        return methods.isEmpty ? nil : methods
    }
}
