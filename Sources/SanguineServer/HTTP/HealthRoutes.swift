import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

/// `/health/live` and `/health/ready`, on both ports: the admin port responds even when all
/// connections of the public port are in use.
struct HealthRoutes: Sendable {
    let storage: any Storage
    let readiness: Readiness
    /// Returns the number of indexes that do not contain all records yet.
    let indexesBuilding: @Sendable () -> Int

    func add(to routes: Router<ServerContext>) {
        routes.get("health/live") { _, _ in Self.healthy() }
        routes.get("health/ready") { [storage, readiness, indexesBuilding] _, _ in
            if let fault = await readiness.check(storage) { throw fault.problem }
            return Self.healthy(storage.dataCheck, indexesBuilding: indexesBuilding())
        }
    }

    private static func healthy(
        _ check: DataCheck = .done,
        indexesBuilding indexes: Int = 0
    ) -> Response {
        var detail = check.detail.map { #","detail":"\#($0)""# } ?? ""
        if indexes > 0 { detail += #","indexesBuilding":\#(indexes)"# }
        return Response(
            status: .ok,
            headers: [.contentType: WireResponse.json, .cacheControl: "no-store"],
            body: .init(byteBuffer: ByteBuffer(string: #"{"status":"ok"\#(detail)}"#))
        )
    }
}

extension DataCheck {
    /// The description of a check that has not finished; it needs no escaping in JSON.
    var detail: String? {
        switch self {
        case .done: nil
        case .running(let part): "The data is still being checked: \(part)."
        case .failed: "The data could not be checked. See the log."
        }
    }
}

/// `/openapi.json`: the same bytes for all clients, so its tag is computed once.
struct DocumentRoutes: Sendable {
    private static let document = PackageResources.openapi_json
    private static let tag = WireResponse.tag(of: document)
    private static let compressed = Gzip.compress(document)

    let gate: Gate

    func add(to routes: Router<ServerContext>) {
        routes.get("openapi.json") { [gate] request, context in
            let wire = gate.wire(request, context)
            var response = Response(
                .read(Self.document, tag: Self.tag, isPersonal: false, to: wire)
            )
            Compression.use(Self.compressed, for: &response, to: request)
            return response
        }
    }
}
