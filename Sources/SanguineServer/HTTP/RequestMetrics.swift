import HTTPTypes
import Metrics
import SanguineModel
import Synchronization

/// Counts and times requests, by method, route template and status; and counts problems by code.
///
/// Nothing personal: a template is `/v1/holds/{id}`, never the id.
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

    // Instruments are made once and kept: making one takes the registry's lock and allocates.
    // Bounded by routes × methods × statuses, all of which are ours; other methods are "other".
    private let instruments = Mutex<[Series: Instruments]>([:])
    private let problems = Mutex<[String: Counter]>([:])
    private let factory: any MetricsFactory

    init(factory: any MetricsFactory) { self.factory = factory }

    func record(
        _ method: HTTPRequest.Method,
        _ route: String,
        _ status: HTTPResponse.Status,
        _ duration: Duration
    ) {
        let name = Self.methods.contains(method) ? method.rawValue : "other"
        let series = Series(method: name, route: route, status: status.code)
        let found = instruments.withLock { $0[series] } ?? make(series)
        found.count.increment()
        found.duration.recordNanoseconds(duration.wholeNanoseconds)
    }

    /// Counts a refusal or failure; codes of apps are one, so that no app makes series without end.
    func record(_ problem: Problem) {
        let code = problem.code.isDefined ? problem.code.rawValue : "other"
        let found = problems.withLock { problems in
            if let known = problems[code] { return known }
            let labels = [("code", code)]
            let made = Counter(label: "http_server_problems", dimensions: labels, factory: factory)
            problems[code] = made
            return made
        }
        found.increment()
    }

    private static let methods: Set<HTTPRequest.Method> = [
        .get, .head, .post, .put, .patch, .delete, .options,
    ]

    private func make(_ series: Series) -> Instruments {
        let labels = [
            ("method", series.method), ("route", series.route), ("status", String(series.status)),
        ]
        let made = Instruments(
            count: Counter(label: "http_server_requests", dimensions: labels, factory: factory),
            duration: Timer(
                label: "http_server_request_duration_seconds",
                dimensions: Array(labels.prefix(2)),
                factory: factory
            )
        )
        return instruments.withLock { known in
            // Two requests may make the same instruments; the registry gives both the same series.
            known[series] = made
            return made
        }
    }
}
