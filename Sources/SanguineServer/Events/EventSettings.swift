import Foundation
import SanguineModel

extension Setting {
    /// The settings of events for analytics.
    static let events = [
        Setting(
            "events.file",
            .optionalText(\.events.file),
            allowed: "the path of a file, without 'events.webhook'",
            "The file that receives events for analytics, as CloudEvents in JSON Lines."
        ),
        Setting(
            "events.fileBytes",
            .integer(\.events.fileBytes, 1_024...(1 << 40)),
            "The size in bytes after which a new file begins; older ones end with a number."
        ),
        Setting(
            "events.filesKept",
            .integer(\.events.filesKept, 1...1_000),
            "The number of full files of events that are kept."
        ),
        Setting(
            "events.webhook",
            .optionalText(\.events.webhook),
            allowed: """
                an http or https URL without user name and password, together with \
                'events.webhookSecret'
                """,
            isValid: { isWebhook($0) },
            "The URL to which each event for analytics is posted, as a CloudEvent."
        ),
        Setting(
            "events.webhookSecret",
            .secret(\.events.webhookSecret),
            allowed: "whsec_ and 24 to 64 bytes in Base64",
            isValid: { WebhookSignature(secret: $0) != nil },
            "The secret that signs the posts as Standard Webhooks."
        ),
        Setting(
            "events.waiting",
            .integer(\.events.waiting, 1_000...10_000_000),
            "The events that may wait to be delivered; beyond it, the oldest are dropped."
        ),
    ]

    private static func isWebhook(_ text: String) -> Bool {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased() else {
            return false
        }
        // Credentials would not be sent, and 'sanguine config' prints the URL.
        return ["http", "https"].contains(scheme) && url.host()?.isEmpty == false
            && url.user == nil && url.password == nil
    }
}
