import Logging
import Metrics

/// The labels of a series of attempts.
private struct AttemptSeries: Hashable {
    var upstream: String
    var outcome: UpstreamReports.Outcome
}

extension UpstreamReports {
    /// Returns reports that count attempts, measure the time to the first byte, and log failures
    /// and changes of breakers.
    static func metrics(_ factory: any MetricsFactory, _ logger: Logger) -> UpstreamReports {
        var reports = UpstreamReports()
        let attempts = KeptInstruments<AttemptSeries, Counter> { series in
            let labels = [("upstream", series.upstream), ("outcome", series.outcome.rawValue)]
            return Counter(label: "upstream_attempts", dimensions: labels, factory: factory)
        }
        let firstBytes = KeptInstruments<String, Timer> { upstream in
            Timer(
                label: "upstream_first_byte_seconds",
                dimensions: [("upstream", upstream)],
                factory: factory
            )
        }
        reports.attempt = { upstream, outcome, firstByte in
            attempts[AttemptSeries(upstream: upstream, outcome: outcome)].increment()
            guard let firstByte else { return }
            firstBytes[upstream].recordNanoseconds(firstByte.wholeNanoseconds)
        }
        reports.failed = { upstream, error in
            var metadata = error.logged
            metadata["upstream"] = "\(upstream)"
            logger.warning("A call to an upstream failed", metadata: metadata)
        }
        reports.breakerChanged = { upstream, phase in
            Counter(
                label: "upstream_breaker_changes",
                dimensions: [("upstream", upstream), ("phase", phase.rawValue)],
                factory: factory
            ).increment()
            logger.notice(
                "The circuit breaker of an upstream changed its state",
                metadata: ["upstream": "\(upstream)", "phase": "\(phase.rawValue)"]
            )
        }
        reports.learned = { upstream, settings in
            logger.notice(
                """
                An upstream rejects a parameter, which is not sent again until the next restart. \
                Change the upstream's settings as shown
                """,
                metadata: ["upstream": "\(upstream)", "settings": "\(settings)"]
            )
        }
        return reports
    }
}

extension UpstreamError {
    /// The metadata for the log; of a refusal the limited message, without key, host and prompt.
    var logged: Logger.Metadata {
        var metadata: Logger.Metadata = ["reason": "\(self)"]
        guard case .refused(let refusal) = self else { return metadata }
        metadata["status"] = "\(refusal.status)"
        if let code = refusal.reason.code ?? refusal.reason.type { metadata["code"] = "\(code)" }
        if let message = refusal.loggedMessage { metadata["message"] = "\(message)" }
        return metadata
    }
}
