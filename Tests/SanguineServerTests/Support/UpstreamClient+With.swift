import SanguineModel
import SanguineServer

extension UpstreamClient {
    /// Runs the body with a client, then closes its connections.
    @discardableResult
    static func with<Value>(
        _ configuration: UpstreamConfiguration,
        clock: any Clock<Duration> = ContinuousClock(),
        _ body: (UpstreamClient) async throws -> Value
    ) async throws -> Value {
        let connections = UpstreamConnections(configuration.httpClientConfiguration())
        let client = UpstreamClient(
            configuration: configuration,
            connections: connections,
            clock: clock
        )
        let result: Result<Value, any Error>
        do { result = .success(try await body(client)) } catch { result = .failure(error) }
        try await connections.shutdown()
        return try result.get()
    }
}
