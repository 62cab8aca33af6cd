import Foundation
import SanguineModel

extension SanguineClient {
    /// Creates a client with fixed values, in memory and without a network, for previews and
    /// screenshots.
    ///
    /// ```swift
    /// let client = SanguineClient.preview { shown in
    ///     shown.set(profile, for: .profile("42"))
    /// }
    /// ```
    ///
    /// Nothing leaves the process or survives it, regardless of the configuration: its transport,
    /// folder, clock for waits, lifecycle and connectivity are not used, and no request times out.
    /// Mutations in a preview are visible at once and never sent.
    ///
    /// - Parameters:
    ///   - configuration: The app's registrations and coders. Default: none.
    ///   - network: The result of fetching values that were not set. Default: they never arrive.
    ///   - fill: Sets the values. If it throws, the client has no values and refuses all reads and
    ///     writes with the reason, so that the preview shows it and does not crash.
    /// - Returns: The client. Keep it for as long as the preview is shown.
    public static func preview(
        _ configuration: Configuration = Configuration(),
        network: PreviewNetwork = .silent,
        _ fill: (PreviewValues) throws -> Void = { _ in }
    ) -> SanguineClient {
        do {
            let client = try SanguineClient(configuration.preview(network))
            try fill(PreviewValues(client: client))
            return client
        } catch {
            return .refusing(
                .invalidDeclaration(
                    "The client for a preview could not be created. \(SanguineError(error))"
                )
            )
        }
    }

    /// Creates a client without values that refuses all reads and writes with a reason.
    ///
    /// It replaces a client that could not be created, and reports why.
    package static func refusing(_ reason: SanguineError) -> SanguineClient {
        var configuration = Configuration().preview(.offline)
        configuration.refusal = reason
        do throws(SanguineError) {
            return try SanguineClient(configuration)
        } catch {
            preconditionFailure("A client without declarations could not be created: \(error)")
        }
    }
}

extension SanguineClient.Configuration {
    /// The configuration of a client that stores nothing and sends nothing.
    fileprivate func preview(_ network: SanguineClient.PreviewNetwork) -> Self {
        var configuration = self
        configuration.isInMemory = true
        configuration.transport = PreviewTransport(network: network)
        configuration.delay = StandingClock()
        configuration.lifecycle = AlwaysForeground()
        configuration.connectivity = AlwaysOnline()
        configuration.retries = false
        configuration.recordPolling = nil
        configuration.balancePolling = nil
        configuration.authorize = nil
        configuration.refresh = nil
        if configuration.server == nil {
            configuration.server = URL(string: "https://preview.invalid")
        }
        return configuration
    }
}
