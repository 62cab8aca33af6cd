import HTTPTypes
import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/metrics`, and `/admin` behind its token, on a separate port that listens on loopback.
struct AdminRoutes: Sendable {
    let authority: Authority
    let gate: Gate
    let calls: CallRunner?
    let admin: AdminGate
    let metrics: OpenMetricsRegistry

    func add(to routes: Router<ServerContext>) {
        routes.get("metrics", use: scrape)
        routes.post("admin/session", use: signIn)
        let admin = routes.group("admin/v1").add(middleware: self.admin)
        AdminAccountRoutes(authority: authority, gate: gate, calls: calls).add(to: admin)
        AdminLedgerRoutes(authority: authority, gate: gate).add(to: admin)
        AdminSwitchRoutes(authority: authority, gate: gate, calls: calls).add(to: admin)
    }

    @Sendable
    private func scrape(_ request: Request, _ context: ServerContext) async throws -> Response {
        Response(
            status: .ok,
            headers: [.contentType: OpenMetricsRegistry.contentType],
            body: .init(byteBuffer: ByteBuffer(string: metrics.render()))
        )
    }

    @Sendable
    private func signIn(_ request: Request, _ context: ServerContext) async throws -> Response {
        struct Body: Codable, Sendable { var token: String }
        let body = try await decoded(Body.self, request, context)
        let cookie = try admin.signIn(with: try body.get().token, context)
        return Response(
            status: .noContent,
            headers: [.setCookie: cookie, .cacheControl: "no-store"]
        )
    }

    private func decoded<Body: Decodable & Sendable>(
        _ type: Body.Type,
        _ request: Request,
        _ context: ServerContext
    ) async throws(Problem) -> Result<Body, Problem> {
        let bytes = try await gate.collect(request, context)
        return try await WireBody.perform(bytes.count, for: nil) { () throws(Problem) in
            try WireBody.decode(Body.self, from: bytes)
        }
    }
}
