import Logging
public import SanguineAuthority

/// Answers the App Store's requests for consumption data.
///
/// When a customer asks for a refund, the App Store may ask how much of the purchase was used. The
/// server knows it from the ledger. Sending it to the App Store Server API needs a key of your
/// account in App Store Connect, and the customer's consent, which only the app can obtain. So a
/// server without a reporter writes the report to its log, and sends nothing.
///
/// ```swift
/// struct Reporter: ConsumptionReporter {
///     func send(_ report: ConsumptionReport) async throws {
///         // PUT /inApps/v2/transactions/consumption/{transactionId}
///     }
/// }
/// ```
public protocol ConsumptionReporter: Sendable {
    /// Sends a report.
    ///
    /// Return within seconds, because the App Store is waiting for the answer to its notification.
    /// An error is logged, and the report is not sent again.
    func send(_ report: ConsumptionReport) async throws
}

/// Logs the notifications of a store, and passes on its requests for consumption data.
struct StoreNotificationLog: Sendable {
    let logger: Logger
    /// Sends the reports; `nil` to log them.
    let reporter: (any ConsumptionReporter)?

    /// Logs a notification, without personal data.
    @Sendable
    func log(_ outcome: StoreNotificationOutcome) async {
        logger.info(
            "App Store notification",
            metadata: [
                "notification": "\(outcome.id)", "type": "\(outcome.type)",
                "result": "\(outcome.result.rawValue)",
            ]
        )
        guard let report = outcome.consumption else { return }
        guard let reporter else {
            logger.notice(
                "App Store asks for consumption data; configure a reporter to send it",
                metadata: [
                    "transaction": "\(report.transactionId)",
                    "consumptionPercentage": "\(report.consumptionPercentage)",
                    "isDelivered": "\(report.isDelivered)",
                ]
            )
            return
        }
        do {
            try await reporter.send(report)
        } catch {
            logger.error(
                "consumption data was not sent",
                metadata: [
                    "transaction": "\(report.transactionId)", "error": "\(type(of: error))",
                ]
            )
        }
    }
}
