import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/health/live` and `/health/ready`, on both ports: the admin port answers when all connections
/// of the public one are taken.
struct HealthRoutes: Sendable {
    let storage: any Storage
    let readiness: Readiness

    func add(to routes: Router<ServerContext>) {
        routes.get("health/live") { _, _ in Self.healthy }
        routes.get("health/ready") { [storage, readiness] _, _ in
            if let fault = await readiness.check(storage) { throw fault.problem }
            return Self.healthy
        }
    }

    private static var healthy: Response {
        Response(
            status: .ok,
            headers: [.contentType: WireAnswer.json, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: #"{"status":"ok"}"#))
        )
    }
}

/// `/openapi.json`.
struct DocumentRoutes: Sendable {
    let gate: Gate

    func add(to routes: Router<ServerContext>) {
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
}
