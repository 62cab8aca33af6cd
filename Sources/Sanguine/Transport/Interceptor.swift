/// Sees a request before it goes out, and its answer before the client does.
///
/// ```swift
/// let logging: Interceptor = { request, next in
///     let response = try await next(request)
///     log("\(request.method) \(request.url.path()) \(response.status)")
///     return response
/// }
/// ```
///
/// It may change the request, and the answer, or answer by itself. `next` is the next one, or the
/// transport, and throws ``TransportError``; what is thrown from here is to the client what a
/// query's or a mutation's closure throws. Called on any thread, within the time that the read or
/// the mutation has.
public typealias Interceptor =
    @Sendable (
        _ request: TransportRequest,
        _ next: @Sendable (TransportRequest) async throws -> TransportResponse
    ) async throws -> TransportResponse
