import Logging
import ServiceLifecycle
import UnixSignals

/// Reloads the certificate when the process receives SIGHUP; logs a notice if there is none.
struct TLSReload: Service {
    private let identity: TLSIdentity?
    private let logger: Logger
    private let signals: UnixSignalsSequence

    /// Starts to catch the signal, which would otherwise end the process.
    init(identity: TLSIdentity?, logger: Logger) async {
        self.identity = identity
        self.logger = logger
        signals = await UnixSignalsSequence(trapping: .sighup)
    }

    func run() async throws {
        // The sequence ends only when its task is cancelled, as a graceful shutdown does here.
        await cancelWhenGracefulShutdown {
            for await _ in signals { reload() }
        }
    }

    private func reload() {
        guard let identity else {
            return logger.notice("SIGHUP is ignored, because no certificate is configured")
        }
        do throws(TLSFileError) {
            try identity.reload()
            logger.notice("The certificate was reloaded and is used for new connections")
        } catch {
            logger.error(
                "The certificate could not be reloaded. The previous one stays in use",
                metadata: ["reason": "\(error)"]
            )
        }
    }
}
