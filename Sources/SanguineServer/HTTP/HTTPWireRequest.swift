import Foundation
import HTTPTypes
import Hummingbird
import SanguineAuthority
import SanguineModel

/// An HTTP request in the form that endpoints read.
struct HTTPWireRequest: WireRequest {
    let request: Request
    let context: ServerContext
    let gate: Gate

    var method: String { request.method.rawValue }

    var path: String { request.uri.path }

    var address: String? { context.address }

    var query: WireQuery {
        guard request.uri.query?.isEmpty == false else { return WireQuery() }
        return WireQuery(request.uri.queryParameters.map { (String($0.key), String($0.value)) })
    }

    func field(_ field: WireField) -> String? { request.headers[field.name] }

    func parameter(_ name: String) -> String? {
        guard let text = context.parameters.get(name) else { return nil }
        // Most names need no decoding, and a decoder copies them several times.
        guard text.utf8.contains(UInt8(ascii: "%")) else { return text }
        // No resource has a name that is longer or expensive to compare.
        return text.removingPercentEncoding.flatMap { $0.isMemberName ? $0 : nil }
    }

    func body() async throws(Problem) -> [UInt8] { try await gate.collect(request, context) }

    func file() async throws(Problem) -> [UInt8] { try await gate.file(request, context) }

    var fileLimit: Int { gate.fileBytes }

    func parts(
        upTo limit: Int,
        _ receive: ([UInt8]) async throws(Problem) -> Void
    ) async throws(Problem) {
        try await gate.parts(of: request, context, upTo: limit, receive)
    }

    func reserve(_ count: Int) throws(Problem) { try gate.reserve(count, context) }

    func admit(_ identity: Identity) throws(Problem) {
        try gate.checkRate(identity, context)
    }

    func admitAnonymous() throws(Problem) { try gate.checkAddressRate(context) }

    func checkAddress() throws(Problem) { try gate.checkProcessorTime(context) }

    func charge(_ time: Duration) { gate.addressProcessor.charge(context.address, time) }
}

extension WireField {
    /// The name as a constant.
    var name: HTTPField.Name {
        switch self {
        case .accelBuffering: .accelBuffering
        case .accept: .accept
        case .acceptRanges: .acceptRanges
        case .allowOrigin: .accessControlAllowOrigin
        case .age: .age
        case .allow: .allow
        case .authorization: .authorization
        case .cacheControl: .cacheControl
        case .cacheStatus: .cacheStatus
        case .contentRange: .contentRange
        case .contentType: .contentType
        case .contentTypeOptions: .xContentTypeOptions
        case .etag: .eTag
        case .idempotencyKey: .idempotencyKey
        case .idempotencyReplayed: .idempotencyReplayed
        case .ifMatch: .ifMatch
        case .ifNoneMatch: .ifNoneMatch
        case .ifRange: .ifRange
        case .lastEventID: .lastEventID
        case .range: .range
        case .resourcePolicy: .resourcePolicy
        case .retryAfter: .retryAfter
        case .sanguineCall: .sanguineCall
        case .sanguineEpoch: .sanguineEpoch
        case .sanguineHead: .sanguineHead
        case .sanguineTag: .sanguineTag
        case .location: .location
        case .methodOverride: .methodOverride
        case .sanguineBlob: .sanguineBlob
        case .tusChecksumAlgorithm: .tusChecksumAlgorithm
        case .tusExtension: .tusExtension
        case .tusMaxSize: .tusMaxSize
        case .tusResumable: .tusResumable
        case .tusVersion: .tusVersion
        case .uploadChecksum: .uploadChecksum
        case .uploadDeferLength: .uploadDeferLength
        case .uploadExpires: .uploadExpires
        case .uploadLength: .uploadLength
        case .uploadMetadata: .uploadMetadata
        case .uploadOffset: .uploadOffset
        case .userID: .userID
        case .vary: .vary
        case .wwwAuthenticate: .wwwAuthenticate
        }
    }
}

extension [Endpoint] {
    /// Adds the endpoints to a router.
    func add(to routes: RouterGroup<ServerContext>, behind gate: Gate) {
        for endpoint in self {
            guard let method = HTTPRequest.Method(rawValue: endpoint.method) else {
                preconditionFailure("'\(endpoint.method)' is a token of RFC 9110.")
            }
            routes.on(RouterPath(endpoint.path), method: method) { request, context in
                let answer = try await endpoint.answer(
                    HTTPWireRequest(request: request, context: context, gate: gate)
                )
                if let stream = answer.stream, stream.length != nil {
                    context.exchange.streamedBytes = stream.pieceBytes
                }
                return Response(answer, on: context.channel)
            }
        }
    }
}

extension Endpoint {
    /// Handles a request on its connection's thread if that is brief, otherwise on any thread.
    fileprivate func answer(_ request: HTTPWireRequest) async throws(Problem) -> WireResponse {
        if isBrief, request.isShort { return try await handler(request) }
        return try await withTaskExecutorPreference(globalConcurrentExecutor) {
            () async throws(Problem) in try await handler(request)
        }
    }
}

extension HTTPWireRequest {
    /// Whether the body is short enough to be read on the connection's thread.
    fileprivate var isShort: Bool {
        guard let length = request.headers[.contentLength] else {
            // In HTTP/2, any body may be sent without its length.
            return [.get, .head, .delete].contains(request.method)
        }
        return Int(length).map { $0 <= EdgeLimits.shortBodyBytes } ?? false
    }
}
