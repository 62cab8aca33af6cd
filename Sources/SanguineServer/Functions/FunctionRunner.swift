import Logging
import Metrics
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// Runs the functions of a server with a ``CallRunner``, and reports to its logs and metrics.
struct FunctionRunner: Service {
    /// The runner of the calls.
    let calls: CallRunner
    private let surroundings: ServerFunction.Surroundings
    private let clock: any WallClock

    init(
        settings: ServerSettings,
        registered: [ServerFunction],
        authority: Authority,
        upstreams: Upstreams,
        clock: any WallClock,
        delay: any Clock<Duration>,
        metrics: any MetricsFactory,
        logger: Logger
    ) {
        let surroundings = ServerFunction.Surroundings(
            settings: settings,
            upstreams: upstreams,
            clock: delay,
            logger: logger
        )
        self.surroundings = surroundings
        self.clock = clock
        let functions =
            settings.functions.map { $0.function(surroundings) }
            + registered.map { $0.make(surroundings) }
        var reports = CallRunner.Reports()
        let instruments = FunctionMetrics(metrics)
        reports.ended = { instruments.ended($0, $1) }
        reports.answered = { instruments.answered($0, $1.label) }
        reports.began = { instruments.began($0, $1) }
        reports.notStored = { problem, attempt in
            let metadata: Logger.Metadata = [
                "code": "\(problem.code.rawValue)", "attempt": "\(attempt)",
            ]
            logger.error("A call could not be settled", metadata: metadata)
        }
        reports.left = { call in
            logger.error(
                "The end of a call could not be stored. Its hold will expire",
                metadata: ["operation": "\(call.operation)"]
            )
        }
        calls = CallRunner(
            authority: authority,
            functions: { functions },
            limits: CallRunner.Limits(
                running: settings.limits.functionCalls,
                waiting: settings.limits.queuedCalls,
                queueTime: settings.limits.queueTime,
                memoryBytes: settings.limits.resultMemoryBytes,
                pingInterval: settings.limits.livePing
            ),
            expiryInterval: Housekeeping.interval,
            delay: delay,
            executor: { LoopExecutor.current },
            reports: reports
        )
    }

    /// Returns the endpoints for programs that use OpenAI's API.
    func openAIRoutes(_ admission: Admission) -> OpenAIRoutes {
        let settings = surroundings.settings
        let name = settings.openAI.function
        var models: [(name: String, upstreams: [String])] = []
        for (upstream, model) in settings.upstreamModels {
            if let index = models.firstIndex(where: { $0.name == model }) {
                models[index].upstreams.append(upstream)
            } else {
                models.append((model, [upstream]))
            }
        }
        return OpenAIRoutes(
            setting: settings.functions.first { $0.name == name && $0.kind == .upstream },
            models: models,
            calls: calls,
            admission: admission,
            clock: clock
        ) { [surroundings] setting, upstreams in
            surroundings.model(setting, of: upstreams)
        }
    }

    /// Waits for the graceful shutdown, then for the calls that still run.
    func run() async throws {
        try? await gracefulShutdown()
        await calls.waitUntilIdle()
    }
}

extension CallReply.Origin {
    /// The label in metrics; the hit rate is the share of `cache` among all labels.
    fileprivate var label: String {
        switch self {
        case .cache: "cache"
        case .run, .missed: "run"
        case .shared: "shared"
        case .replayed: "replayed"
        }
    }
}

/// Gives running calls ``ServerSettings/Limits/shutdownGrace`` once the server shuts down, then
/// answers the callers that still wait.
struct CallShutdown: Service {
    let calls: CallRunner
    let grace: Duration
    let delay: any Clock<Duration>

    func run() async throws {
        try? await gracefulShutdown()
        // Not awaited: the service that waits for the calls stops after this one.
        Task {
            try? await delay.sleep(for: grace)
            calls.abandon()
        }
    }
}

extension FunctionSetting {
    /// Returns the function that implements the setting.
    fileprivate func function(
        _ surroundings: ServerFunction.Surroundings
    ) -> any MeteredFunction {
        switch kind {
        case .echo: EchoFunction(name: name, rules: rules, delay: surroundings.clock)
        case .upstream: ModelFunction(self, surroundings.model(self))
        }
    }
}
