import Foundation
import Sanguine
import SanguineAuthority
import SanguineModel

/// Routes requests to the authority's endpoints, as the server's router does.
struct InMemoryRouter: Sendable {
    private struct Route: Sendable {
        let parts: [Substring]
        let endpoint: Endpoint

        /// Returns the parameters of a path that matches the route, or `nil`.
        func parameters(_ path: [Substring]) -> [String: String]? {
            guard path.count == parts.count else { return nil }
            var parameters: [String: String] = [:]
            for (part, template) in zip(path, parts) {
                let text = part.removingPercentEncoding ?? String(part)
                if template.hasPrefix(":") {
                    parameters[String(template.dropFirst())] = text
                } else if template != text {
                    return nil
                }
            }
            return parameters
        }
    }

    /// Authenticates requests before they reach the endpoints.
    let admission: Admission
    private let routes: [Route]

    init(
        _ authority: Authority,
        _ state: WatchedState<InMemoryAuthority.State>,
        delay: any Clock<Duration>
    ) {
        let calls = CallRunner(
            authority: authority,
            functions: { state.withLock { $0.functions } },
            limits: CallRunner.Limits(running: TestingLimits.calls),
            expiryInterval: .seconds(1),
            // A storage in memory is never busy: only streamed answers use it, for their pings.
            delay: delay
        )
        let endpoints = Endpoints(
            authority: authority,
            calls: calls,
            judge: { operation in
                // The judge is the test's code, and is called without a lock.
                let judge = state.withLock { $0.judge }
                return judge?(operation)
            },
            onPush: { account, request, answer in
                state.withLock { $0.record(request, answer, of: account) }
            }
        )
        admission = Admission(authority)
        routes = endpoints.all.map {
            Route(parts: "v1/\($0.path)".split(separator: "/"), endpoint: $0)
        }
    }

    /// Answers a request.
    func answer(_ request: TransportRequest) async throws(Problem) -> WireResponse {
        let parts = request.path.split(separator: "/")
        let method = request.method == "HEAD" ? "GET" : request.method
        var allowed: Set<String> = []
        for route in routes {
            guard let parameters = route.parameters(parts) else { continue }
            guard route.endpoint.method == method else {
                allowed.insert(route.endpoint.method)
                continue
            }
            var answer = try await route.endpoint.handler(
                InMemoryRequest(request: request, parameters: parameters)
            )
            if request.method == "HEAD" { answer.body = [] }
            return answer
        }
        guard !allowed.isEmpty else { throw .noEndpoint }
        if allowed.contains("GET") { allowed.insert("HEAD") }
        return .refusal(allowing: allowed)
    }
}

/// A request of a client's transport, in the form that the endpoints read.
struct InMemoryRequest: WireRequest {
    let request: TransportRequest
    var parameters: [String: String] = [:]

    var method: String { request.method }

    var path: String { request.path }

    var address: String? { nil }

    var query: WireQuery {
        let items = URLComponents(url: request.url, resolvingAgainstBaseURL: true)?.queryItems
        return WireQuery((items ?? []).map { ($0.name, $0.value ?? "") })
    }

    func field(_ field: WireField) -> String? {
        request.headers.first { $0.key.lowercased() == field.rawValue.lowercased() }?.value
    }

    func parameter(_ name: String) -> String? { parameters[name] }

    func body() throws(Problem) -> [UInt8] {
        let bytes = Array(request.body ?? Data())
        guard bytes.count <= WireLimits.bodyBytes else {
            throw WireBody.tooLarge(WireLimits.bodyBytes)
        }
        return try WireBody.checked(bytes, field(.contentType))
    }

    func file() throws(Problem) -> [UInt8] {
        let bytes = Array(request.body ?? Data())
        guard bytes.count <= WireLimits.blobBytes else {
            throw WireBody.tooLarge(WireLimits.blobBytes)
        }
        return bytes
    }

    // Only servers limit rates.
    func admit(_ identity: Identity) {}

    func admitAnonymous() {}

    func checkAddress() {}

    func charge(_ time: Duration) {}
}

extension TransportRequest {
    var path: String { url.path() }
}

extension InMemoryAuthority.State {
    /// Records the applied operations of a push.
    fileprivate mutating func record(
        _ request: PushRequest,
        _ answer: PushAnswer,
        of account: Identifier
    ) {
        let heads = answer.results.reduce(into: [Identifier: Int64]()) { heads, result in
            if result.status == .applied { heads[result.id] = result.head }
        }
        let inOrder = request.operations.sorted { $0.sequence < $1.sequence }
        for operation in inOrder {
            guard let head = heads[operation.id],
                done[account]?.count ?? 0 < TestingLimits.operations
            else { continue }
            done[account, default: []].append(.init(head: head, operation: operation))
        }
    }
}
