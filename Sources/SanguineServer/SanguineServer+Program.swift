public import Foundation
import ServiceLifecycle
import UnixSignals

extension SanguineServer {
    /// The addresses of a running server.
    public struct Addresses: Hashable, Sendable {
        /// The public address.
        public let http: URL
        /// The address for metrics and administration.
        public let admin: URL
    }

    /// Serves until the process receives SIGTERM or SIGINT, then shuts down gracefully.
    ///
    /// Use this in a program that runs only this server. A program with other services adds the
    /// server to its own `ServiceGroup`, which calls ``run()``.
    ///
    /// - Throws: The errors of ``run()``.
    public func serve() async throws {
        try await ServiceGroup(
            services: [self],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        ).run()
    }

    /// Serves while a body runs, then shuts down gracefully.
    ///
    /// Use this in a test, a preview or a tool that runs a server of its own. Port 0 chooses free
    /// ports.
    ///
    /// ```swift
    /// var settings = ServerSettings()
    /// settings.http.port = 0
    /// let server = try await SanguineServer(storage: storage, keys: keys, settings: settings)
    /// try await server.serve { addresses in
    ///     let client = try SanguineClient(.init(server: addresses.http))
    ///     _ = try await client.value(of: .balance)
    ///     client.close()
    /// }
    /// ```
    ///
    /// The body is cancelled if the server fails.
    ///
    /// - Parameter body: Called with the addresses once both ports accept requests.
    /// - Returns: The body's result.
    /// - Throws: The body's error, or the errors of ``run()``.
    public func serve<Value: Sendable>(
        while body: @escaping @Sendable (Addresses) async throws -> Value
    ) async throws -> Value {
        let scope = ServiceScope<Addresses>()
        let server = reportingAddresses { scope.listen(on: $0) }
        return try await scope.run(server, logger: logger, body)
    }
}

extension ServerSettings.HTTP {
    /// The host in the form of URLs: an IPv6 address in brackets (RFC 3986, section 3.2.2).
    package var urlHost: String { Self.urlHost(host) }

    /// The URL of the API at a port.
    package func url(port: Int) -> String {
        "\(tlsCertificate == nil ? "http" : "https")://\(urlHost):\(port)"
    }

    /// The URL for metrics and administration at a port.
    func adminURL(port: Int) -> String { "http://\(Self.urlHost(adminHost)):\(port)" }

    private static func urlHost(_ host: String) -> String {
        host.contains(":") ? "[\(host)]" : host
    }
}
