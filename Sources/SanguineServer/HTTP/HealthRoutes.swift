import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/health/live`, `/health/ready` and `/openapi.json`.
struct HealthRoutes: Sendable {
    let authority: Authority
    let gate: Gate

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
        routes.get("openapi.json") { [gate] request, context in
            Response(
                .read(
                    PackageResources.openapi_json,
                    isPersonal: false,
                    to: gate.wire(request, context)
                )
            )
        }
    }

    private static var notReady: Problem {
        Problem(.overloaded, "Ask again soon: the storage does not answer.", retryAfter: 1)
    }

    private static var healthy: Response {
        Response(
            status: .ok,
            headers: [.contentType: WireAnswer.json, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: #"{"status":"ok"}"#))
        )
    }
}
