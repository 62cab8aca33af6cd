import Logging
import Metrics
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// Delivers the stored events for analytics, at least once, and in order for each account.
///
/// Events are removed only after the sink has accepted them. While it fails, deliveries are retried
/// with growing pauses, and the number of waiting events is bounded: the oldest are dropped,
/// counted by the metric `events_dropped`, and reported in the log.
struct EventDelivery: Service {
    /// The number of events in one batch.
    static let batch = 100
    /// The pause while there are no events.
    static let idle = Duration.seconds(1)
    /// The longest pause after a failure.
    static let longestPause = Duration.seconds(300)
    /// The longest pause while the receiver accepts the events of some accounts only.
    static let longestPartialPause = Duration.seconds(30)
    /// The maximum number of batches that one turn reads after events that were not accepted.
    static let batchesPerTurn = 100
    /// The number of full batches after which the waiting events are counted.
    static let batchesPerCount = 100

    private let authority: Authority
    private let sink: any EventSink
    private let limit: Int
    private let delay: any Clock<Duration>
    private let logger: Logger
    private let delivered: Counter
    private let dropped: Counter
    private let failures: Counter

    init(
        authority: Authority,
        sink: any EventSink,
        limit: Int,
        delay: any Clock<Duration>,
        metrics: any MetricsFactory,
        logger: Logger
    ) {
        self.authority = authority
        self.sink = sink
        self.limit = limit
        self.delay = delay
        self.logger = logger
        delivered = Counter(label: "events_delivered", factory: metrics)
        dropped = Counter(label: "events_dropped", factory: metrics)
        failures = Counter(label: "events_delivery_failures", factory: metrics)
    }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var backoff = DeliveryBackoff()
            while true {
                let turn = await deliverOnce()
                if let pause = backoff.pause(after: turn) { try await delay.sleep(for: pause) }
                if backoff.mustCount { await trim() }
                try Task.checkCancellation()
            }
        }
        await sink.close()
    }

    /// The result of one turn.
    enum Turn: Equatable, Sendable {
        /// There was nothing to deliver.
        case idle
        /// All events were delivered; whether more may wait.
        case delivered(isFull: Bool)
        /// The events of some accounts were delivered, those of others not.
        case partial
        /// None was delivered.
        case failed
    }

    /// Delivers the oldest events.
    ///
    /// Events of an account that the receiver does not accept wait, and later ones of other
    /// accounts pass them. As long as it has accepted nothing, the receiver may be down, so behind
    /// the first batch only one event is tried.
    func deliverOnce() async -> Turn {
        var (last, failure) = (String?.none, String?.none)
        var (failed, accepts) = (Set<String>(), false)
        do throws(Problem) {
            for _ in 0..<Self.batchesPerTurn {
                let events = try await authority.waitingEvents(after: last, limit: Self.batch)
                guard let end = events.last else { break }
                let isFull = events.count == Self.batch
                let isTrial = failure != nil && !accepts
                let open = events.filter { $0.body.isEmpty || !failed.contains($0.subject) }
                let receipt = try await deliver(isTrial ? Array(open.prefix(1)) : open)
                failed.formUnion(receipt.failed)
                failure = failure ?? receipt.failure
                accepts = accepts || !receipt.delivered.isEmpty
                guard failure != nil else { return .delivered(isFull: isFull) }
                // A sink that cannot tell accounts apart, or accepts nothing, is tried later.
                if failed.isEmpty || isTrial && receipt.failure != nil { break }
                // After a trial that succeeded, the same batch is delivered.
                if isTrial && !open.isEmpty { continue }
                guard isFull else { break }
                last = end.documentID
            }
        } catch {
            // The storage has already logged its failure.
            return .failed
        }
        guard let failure else { return .idle }
        failures.increment()
        logger.warning(
            "Events could not be delivered and will be retried",
            metadata: ["reason": "\(failure)", "accounts": "\(failed.count)"]
        )
        return accepts ? .partial : .failed
    }

    /// Delivers events, and removes those that were accepted or refused.
    private func deliver(_ events: [OutgoingEvent]) async throws(Problem) -> EventReceipt {
        guard !events.isEmpty else { return EventReceipt() }
        let unreadable = events.filter(\.body.isEmpty).map(\.documentID)
        var receipt = await sink.deliver(events.filter { !$0.body.isEmpty })
        receipt.refused += unreadable
        try await authority.removeEvents(receipt.delivered + receipt.refused)
        delivered.increment(by: receipt.delivered.count)
        drop(receipt.refused.count, because: "The receiver refused them")
        return receipt
    }

    /// Drops the oldest events beyond the limit.
    func trim() async {
        guard let count = try? await authority.trimEvents(to: limit) else { return }
        drop(count.dropped, because: "More than 'events.waiting' were waiting")
    }

    private func drop(_ count: Int, because reason: String) {
        guard count > 0 else { return }
        dropped.increment(by: count)
        logger.error(
            "Events for analytics were dropped",
            metadata: ["count": "\(count)", "reason": "\(reason)"]
        )
    }
}

/// Decides when the next batch is delivered, and when the waiting events are counted.
struct DeliveryBackoff: Sendable {
    private var failures = 0
    private var batches = 0

    /// Whether the waiting events must be counted now.
    private(set) var mustCount = false

    /// Returns the pause after a turn; `nil` for none.
    ///
    /// After failures, the pauses are 1, 2, 4, … seconds, at most
    /// ``EventDelivery/longestPause``, or ``EventDelivery/longestPartialPause`` while some are
    /// delivered.
    mutating func pause(after turn: EventDelivery.Turn) -> Duration? {
        mustCount = false
        switch turn {
        case .idle:
            (failures, batches) = (0, 0)
            return EventDelivery.idle
        case .delivered(let isFull):
            failures = 0
            batches = isFull ? batches + 1 : 0
            mustCount = batches > 0 && batches.isMultiple(of: EventDelivery.batchesPerCount)
            return isFull ? nil : EventDelivery.idle
        case .partial, .failed:
            failures += 1
            // The sixth failure in a row comes about a minute after the first.
            mustCount = failures >= 6
            let seconds = Int64(1) << min(failures - 1, 9)
            let longest =
                turn == .partial
                ? EventDelivery.longestPartialPause : EventDelivery.longestPause
            return min(.seconds(seconds), longest)
        }
    }
}

extension EventDelivery {
    /// Creates the delivery that the settings describe; `nil` for none.
    init?(
        _ settings: ServerSettings.Events,
        authority: Authority,
        clock: any WallClock,
        delay: any Clock<Duration>,
        metrics: any MetricsFactory,
        logger: Logger
    ) {
        let sink: any EventSink
        if let file = settings.file {
            sink = EventFile(path: file, limit: settings.fileBytes, kept: settings.filesKept)
        } else if let url = settings.webhook, let secret = settings.webhookSecret,
            let signature = WebhookSignature(secret: secret.reveal())
        {
            sink = EventWebhook(url: url, signature: signature, clock: clock)
        } else {
            return nil
        }
        self.init(
            authority: authority,
            sink: sink,
            limit: settings.waiting,
            delay: delay,
            metrics: metrics,
            logger: logger
        )
    }
}
