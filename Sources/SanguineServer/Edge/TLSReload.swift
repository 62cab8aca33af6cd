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
            return logger.notice("SIGHUP changes nothing: there is no certificate to read again")
        }
        do throws(TLSFileError) {
            try identity.reload()
            logger.notice("New connections get the certificate that was read again")
        } catch {
            logger.error(
                "The certificate could not be read again; the one before is used",
                metadata: ["reason": "\(error)"]
            )
        }
    }
}
