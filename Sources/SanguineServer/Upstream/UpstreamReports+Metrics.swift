import Logging
import Metrics

extension UpstreamReports {
    /// Counts attempts, measures the time to the first byte, and shows and logs the breakers.
    static func metrics(_ factory: any MetricsFactory, _ logger: Logger) -> UpstreamReports {
        var reports = UpstreamReports()
        reports.attempt = { upstream, outcome, firstByte in
            let labels = [("upstream", upstream), ("outcome", outcome.rawValue)]
            Counter(label: "upstream_attempts", dimensions: labels, factory: factory).increment()
            guard let firstByte else { return }
            Timer(
                label: "upstream_first_byte_seconds",
                dimensions: [("upstream", upstream)],
                factory: factory
            ).recordNanoseconds(firstByte.wholeNanoseconds)
        }
        reports.breakerChanged = { upstream, phase in
            Counter(
                label: "upstream_breaker_changes",
                dimensions: [("upstream", upstream), ("phase", phase.rawValue)],
                factory: factory
            ).increment()
            logger.notice(
                "An upstream's breaker has changed",
                metadata: ["upstream": "\(upstream)", "phase": "\(phase.rawValue)"]
            )
        }
        return reports
    }
}
