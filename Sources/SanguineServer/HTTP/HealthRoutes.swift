import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/health/live`, `/health/ready` and `/openapi.json`.
struct HealthRoutes: Sendable {
    let authority: Authority

    func add(to routes: Router<ServerContext>) {
        routes.get("health/live") { _, _ in Self.healthy }
        routes.get("health/ready") { [authority] _, _ in
            try await authority.checkReady()
            return Self.healthy
        }
        routes.get("openapi.json") { request, _ in
            Answers.read(PackageResources.openapi_json, isPersonal: false, to: request)
        }
    }

    private static var healthy: Response {
        Response(
            status: .ok,
            headers: [.contentType: Answers.json, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: #"{"status":"ok"}"#))
        )
    }
}
