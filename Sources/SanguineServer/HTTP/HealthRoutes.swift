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
            do throws(Problem) {
                try await authority.checkReady()
            } catch {
                throw Self.notReady  // Whatever the reason is, the log has it.
            }
            return Self.healthy
        }
        routes.get("openapi.json") { request, _ in
            Answers.read(PackageResources.openapi_json, isPersonal: false, to: request)
        }
    }

    private static var notReady: Problem {
        Problem(.overloaded, "Ask again soon: the storage does not answer.", retryAfter: 1)
    }

    private static var healthy: Response {
        Response(
            status: .ok,
            headers: [.contentType: Answers.json, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: #"{"status":"ok"}"#))
        )
    }
}
