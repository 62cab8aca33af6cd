import Logging
import Metrics

/// What tells attempts at upstreams apart.
private struct AttemptSeries: Hashable {
    var upstream: String
    var outcome: UpstreamReports.Outcome
}

extension UpstreamReports {
    /// Counts attempts, measures the time to the first byte, and shows and logs the breakers.
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
        reports.learned = { upstream, settings in
            logger.notice(
                """
                An upstream refuses a parameter of requests, which are sent without it until the \
                next restart. Set what it takes
                """,
                metadata: ["upstream": "\(upstream)", "settings": "\(settings)"]
            )
        }
        return reports
    }
}
