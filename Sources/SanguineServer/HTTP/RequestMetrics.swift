import HTTPTypes
import Metrics
import SanguineModel

/// Counts and times requests by method, route template and status, and counts problems by code.
///
/// The metrics contain no personal data: a template is `/v1/holds/{id}`, never the id.
final class RequestMetrics: Sendable {
    private struct Series: Hashable {
        let method: String
        let route: String
        let status: Int
    }

    private struct Instruments {
        let count: Counter
        let duration: Timer
    }

    // Bounded by routes × methods × statuses, all defined by the server; other methods are "other".
    private let instruments: KeptInstruments<Series, Instruments>
    private let problems: KeptInstruments<String, Counter>

    init(factory: any MetricsFactory) {
        instruments = KeptInstruments { Self.make($0, factory) }
        problems = KeptInstruments { code in
            let labels = [("code", code)]
            return Counter(label: "http_server_problems", dimensions: labels, factory: factory)
        }
    }

    func record(
        _ method: HTTPRequest.Method,
        _ route: String,
        _ status: HTTPResponse.Status,
        _ duration: Duration
    ) {
        let name = Self.methods.contains(method) ? method.rawValue : "other"
        let series = Series(method: name, route: route, status: status.code)
        let found = instruments[series]
        found.count.increment()
        found.duration.recordNanoseconds(duration.wholeNanoseconds)
    }

    /// Counts a problem; the codes of apps share one series, so that their number stays bounded.
    func record(_ problem: Problem) {
        let code = problem.code.isDefined ? problem.code.rawValue : "other"
        problems[code].increment()
    }

    private static let methods: Set<HTTPRequest.Method> = [
        .get, .head, .post, .put, .patch, .delete, .options,
    ]

    private static func make(_ series: Series, _ factory: any MetricsFactory) -> Instruments {
        let labels = [
            ("method", series.method), ("route", series.route), ("status", String(series.status)),
        ]
        return Instruments(
            count: Counter(label: "http_server_requests", dimensions: labels, factory: factory),
            duration: Timer(
                label: "http_server_request_duration_seconds",
                dimensions: Array(labels.prefix(2)),
                factory: factory
            )
        )
    }
}
