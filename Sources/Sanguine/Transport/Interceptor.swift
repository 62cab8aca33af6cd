/// Intercepts a request before it is sent, and its response before the client receives it.
///
/// ```swift
/// let logging: Interceptor = { request, next in
///     let response = try await next(request)
///     log("\(request.method) \(request.url.path()) \(response.status)")
///     return response
/// }
/// ```
///
/// An interceptor may change the request and the response, or return its own response. `next` is
/// the next interceptor, or the transport, and throws ``TransportError``. The client treats an
/// error thrown here like one from a query's or mutation's closure. Called on any thread, within
/// the time limit of the read or mutation.
public typealias Interceptor =
    @Sendable (
        _ request: TransportRequest,
        _ next: @Sendable (TransportRequest) async throws -> TransportResponse
    ) async throws -> TransportResponse
