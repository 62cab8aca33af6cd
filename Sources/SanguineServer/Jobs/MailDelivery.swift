import Logging
import Metrics
import SanguineAuthority
import SanguineModel
import ServiceLifecycle
import Synchronization

/// Sends the e-mails that wait in the outbox of the storage.
///
/// A message stays in the outbox until it is sent. Failed ones are sent again, with a growing
/// pause, until they are useless; the log and a metric then name them. A message whose removal from
/// the outbox fails is not sent a second time by this process.
///
/// Mutable state: `unrecorded`, guarded by its mutex; bounded by ``recordLimit``.
final class MailDelivery: Service {
    /// The number of messages that are sent at once.
    static let atOnce = 4
    /// The number of messages that are read at once.
    static let batch = 100
    /// The number of sent messages whose removal may be outstanding; then no others are sent.
    static let recordLimit = 1_000

    private let authority: Authority
    private let sender: any MailSender
    private let logger: Logger
    private let sent: Counter
    private let failed: Counter
    private let dropped: Counter
    private let unrecorded = Mutex<Set<String>>([])
    private let wakes: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    init(
        authority: Authority,
        sender: any MailSender,
        metrics: any MetricsFactory,
        logger: Logger
    ) {
        self.authority = authority
        self.sender = sender
        self.logger = logger
        sent = Counter(label: "mail_sent", factory: metrics)
        failed = Counter(label: "mail_failed", factory: metrics)
        dropped = Counter(label: "mail_dropped", factory: metrics)
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Sends the messages that are due, soon and on the delivery's own task.
    func wakeUp() { wake.yield() }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            for await _ in wakes { await sendDue() }
        }
    }

    /// Sends all messages that are due.
    func sendDue() async {
        var position: String?
        repeat {
            do throws(Problem) {
                let batch = try await authority.dueMail(after: position, limit: Self.batch)
                for id in batch.lost { await drop(id) }
                await send(batch.due)
                position = batch.next
            } catch {
                // The storage has logged its failure.
                let metadata: Logger.Metadata = ["code": "\(error.code.rawValue)"]
                logger.debug("E-mails could not be read", metadata: metadata)
                return
            }
        } while position != nil && !Task.isCancelled
    }

    private func send(_ mails: [OutgoingMail]) async {
        await withTaskGroup(of: Void.self) { tasks in
            for (number, mail) in mails.enumerated() {
                if number >= Self.atOnce { await tasks.next() }
                tasks.addTask { [self] in await send(mail) }
            }
        }
    }

    private func send(_ mail: OutgoingMail) async {
        let (isSent, isFull) = unrecorded.withLock {
            ($0.contains(mail.id), $0.count >= Self.recordLimit)
        }
        guard !isSent else { return await record(mail.id) }
        guard !isFull, !Task.isCancelled else { return }
        do throws(MailFailure) {
            try await sender.send(mail)
        } catch {
            // A server that stops is no failure of the message.
            guard !Task.isCancelled else { return }
            return await retry(mail, after: error)
        }
        sent.increment()
        _ = unrecorded.withLock { $0.insert(mail.id) }
        await record(mail.id)
    }

    /// Removes a sent message from the outbox.
    private func record(_ id: String) async {
        guard (try? await authority.mailSent(id)) != nil else { return }
        _ = unrecorded.withLock { $0.remove(id) }
    }

    private func retry(_ mail: OutgoingMail, after failure: MailFailure) async {
        failed.increment()
        let metadata: Logger.Metadata = ["mail": "\(mail.id)", "reason": "\(failure)"]
        let isRetried = try? await authority.mailFailed(
            mail.id,
            isPermanent: failure.isPermanent
        )
        if isRetried == false {
            dropped.increment()
            logger.error("An e-mail could not be sent and was dropped", metadata: metadata)
        } else {
            logger.warning("An e-mail could not be sent and will be retried", metadata: metadata)
        }
    }

    private func drop(_ id: String) async {
        guard (try? await authority.mailSent(id)) != nil else { return }
        dropped.increment()
        logger.error(
            "An e-mail could not be sent in time and was dropped",
            metadata: ["mail": "\(id)"]
        )
    }
}
