import Foundation
import SanguineModel

extension SanguineClient {
    /// A client with fixed values, in memory and without a network: for previews and screenshots.
    ///
    /// ```swift
    /// let client = SanguineClient.preview { shown in
    ///     shown.set(profile, for: .profile("42"))
    /// }
    /// ```
    ///
    /// Nothing leaves the process or survives it, whatever the configuration says: its transport,
    /// folder, clock for waits, lifecycle and connectivity are not used, and no time-out ends. What
    /// the user does in a preview is seen at once, and is never sent.
    ///
    /// - Parameters:
    ///   - configuration: What the app registers, and how it reads and writes. Default: nothing.
    ///   - network: What becomes of values that were not set. Default: they never come.
    ///   - fill: Says what is shown. If it throws, the client has no values and refuses every read
    ///     and write with the reason: a preview shows it, and does not crash.
    /// - Returns: The client. It may be kept for as long as the preview is shown.
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
                    "The client for a preview could not be made. \(SanguineError(error))"
                )
            )
        }
    }

    /// A client that knows nothing, and refuses every read and write for that reason.
    ///
    /// It stands where there is no client, and says why.
    package static func refusing(_ reason: SanguineError) -> SanguineClient {
        var configuration = Configuration().preview(.offline)
        configuration.refusal = reason
        do throws(SanguineError) {
            return try SanguineClient(configuration)
        } catch {
            preconditionFailure("A client without any declaration is made in memory: \(error)")
        }
    }
}

extension SanguineClient.Configuration {
    /// The same, for a client that keeps nothing and reaches nobody.
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
