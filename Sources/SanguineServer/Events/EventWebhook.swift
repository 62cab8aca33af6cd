import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel

/// Posts each event to a URL as a CloudEvent, signed as a Standard Webhook.
///
/// Events of several accounts are posted at the same time, those of one account one after the
/// other. Every attempt has the same `webhook-id`, a new `webhook-timestamp` and the signature for
/// it, so that a receiver that refuses old requests accepts a late attempt.
struct EventWebhook: EventSink {
    /// Sends one request and returns the status of its response.
    typealias Post = @Sendable (HTTPHeaders, [UInt8]) async throws -> Int

    /// The number of accounts whose events are posted at the same time.
    static let atOnce = 8
    /// The time limit for one attempt.
    static let timeout = TimeAmount.seconds(15)

    private let signature: WebhookSignature
    private let clock: any WallClock
    private let post: Post
    private let onClose: @Sendable () async -> Void

    /// Creates a webhook over a function that sends requests.
    init(
        signature: WebhookSignature,
        clock: any WallClock,
        onClose: @escaping @Sendable () async -> Void = {},
        post: @escaping Post
    ) {
        self.signature = signature
        self.clock = clock
        self.onClose = onClose
        self.post = post
    }

    /// Creates a webhook that sends requests to the URL.
    init(url: String, signature: WebhookSignature, clock: any WallClock) {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.timeout = .init(connect: .seconds(5), read: Self.timeout)
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        self.init(
            signature: signature,
            clock: clock,
            onClose: { try? await client.shutdown() }
        ) { headers, body in
            var request = HTTPClientRequest(url: url)
            request.method = .POST
            request.headers = headers
            request.body = .bytes(ByteBuffer(bytes: body))
            let response = try await client.execute(request, timeout: Self.timeout)
            return Int(response.status.code)
        }
    }

    func deliver(_ events: [OutgoingEvent]) async -> EventReceipt {
        let subjects = Dictionary(grouping: events, by: \.subject).values.map(\.self)
        return await withTaskGroup(of: EventReceipt.self) { group in
            var rest = subjects[...]
            for events in rest.prefix(Self.atOnce) {
                group.addTask { await deliverInOrder(events) }
            }
            rest = rest.dropFirst(Self.atOnce)
            var receipt = EventReceipt()
            for await part in group {
                receipt.delivered += part.delivered
                receipt.refused += part.refused
                receipt.failed.formUnion(part.failed)
                receipt.failure = receipt.failure ?? part.failure
                if let events = rest.popFirst() {
                    group.addTask { await deliverInOrder(events) }
                }
            }
            return receipt
        }
    }

    func close() async { await onClose() }

    private func deliverInOrder(_ events: [OutgoingEvent]) async -> EventReceipt {
        var receipt = EventReceipt()
        for event in events {
            guard receipt.failure == nil, !Task.isCancelled else { break }
            do {
                let status = try await post(headers(for: event), event.body)
                switch status {
                case 200..<300: receipt.delivered.append(event.documentID)
                // The receiver has read the event, and will not accept it later either.
                case 400, 413, 415, 422: receipt.refused.append(event.documentID)
                default: receipt.failure = "the webhook answered \(status)"
                }
            } catch {
                receipt.failure = "\(error)"
            }
            if receipt.failure != nil { receipt.failed.insert(event.subject) }
        }
        return receipt
    }

    private func headers(for event: OutgoingEvent) -> HTTPHeaders {
        let seconds = clock.now().millisecondsSince1970 / 1_000
        return [
            "content-type": "application/cloudevents+json",
            "webhook-id": event.id,
            "webhook-timestamp": String(seconds),
            "webhook-signature": signature.text(id: event.id, seconds: seconds, body: event.body),
        ]
    }
}
