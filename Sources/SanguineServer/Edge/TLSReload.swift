import Logging
import ServiceLifecycle
import UnixSignals

/// Reads the certificate again whenever the process gets SIGHUP; without one it says so.
struct TLSReload: Service {
    private let identity: TLSIdentity?
    private let logger: Logger
    private let signals: UnixSignalsSequence

    /// Catches the signal, which would end the process, from now on.
    init(identity: TLSIdentity?, logger: Logger) async {
        self.identity = identity
        self.logger = logger
        signals = await UnixSignalsSequence(trapping: .sighup)
    }

    func run() async throws {
        // The sequence ends with the task, or never: a graceful shutdown ends the task here.
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
