import Foundation
import Logging
import NIOHTTP1
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority
@testable import SanguineServer

/// The delivery of events for analytics to a file and to a webhook.
@Suite("Delivery of events", .bounded)
struct EventDeliveryTests {
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private func event(_ number: Int, of subject: String = "a") -> OutgoingEvent {
        OutgoingEvent(
            documentID: "d\(number)",
            id: "id-\(number)",
            subject: subject,
            body: Array(#"{"number":\#(number)}"#.utf8)
        )
    }

    /// Records what a webhook receives.
    private final class Receiver: Sendable {
        struct Received: Sendable {
            var headers: HTTPHeaders
            var body: String
        }

        private let received = Mutex<[Received]>([])
        private let status: @Sendable (String) -> Int

        init(status: @escaping @Sendable (String) -> Int) { self.status = status }

        var all: [Received] { received.withLock { $0 } }

        func post(_ headers: HTTPHeaders, _ body: [UInt8]) -> Int {
            let text = String(decoding: body, as: UTF8.self)
            received.withLock { $0.append(Received(headers: headers, body: text)) }
            return status(text)
        }
    }

    private func webhook(
        _ clock: ManualWallClock = ManualWallClock(),
        _ receiver: Receiver
    ) throws -> EventWebhook {
        let signature = try #require(WebhookSignature(secret: Self.secret))
        return EventWebhook(signature: signature, clock: clock) { receiver.post($0, $1) }
    }

    @Test func `a signature is that of the Standard Webhooks specification`() throws {
        let signature = try #require(WebhookSignature(secret: Self.secret))
        let text = signature.text(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            seconds: 1_614_265_330,
            body: Array(#"{"test": 2432232314}"#.utf8)
        )

        #expect(text == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test(arguments: ["", "secret", "whsec_", "whsec_!!!", "whsec_c2hvcnQ="])
    func `a malformed secret is refused`(secret: String) {
        #expect(WebhookSignature(secret: secret) == nil)
    }

    @Test func `every attempt has the same id, and a time and a signature of its own`()
        async throws
    {
        let clock = ManualWallClock()
        let receiver = Receiver { _ in 503 }
        let webhook = try webhook(clock, receiver)
        let first = await webhook.deliver([event(1)])
        clock.advance(by: .seconds(3_600))
        _ = await webhook.deliver([event(1)])

        #expect(first.delivered.isEmpty && first.failure?.contains("503") == true)
        let all = receiver.all
        #expect(all.map { $0.headers.first(name: "webhook-id") } == ["id-1", "id-1"])
        #expect(Set(all.map { $0.headers.first(name: "webhook-timestamp") }).count == 2)
        #expect(Set(all.map { $0.headers.first(name: "webhook-signature") }).count == 2)
        #expect(Set(all.map(\.body)).count == 1)
    }

    @Test func `after a failure no later event of its account is sent, but those of others`()
        async throws
    {
        let receiver = Receiver { $0.contains(":1}") ? 500 : 200 }
        let events = [event(1, of: "a"), event(2, of: "a"), event(3, of: "b"), event(4, of: "b")]
        let receipt = try await webhook(receiver).deliver(events)

        #expect(Set(receipt.delivered) == ["d3", "d4"])
        #expect(!receiver.all.contains { $0.body.contains(":2}") })
    }

    @Test func `an event that the receiver refuses as such does not block later ones`()
        async throws
    {
        let receiver = Receiver { $0.contains(":1}") ? 422 : 204 }
        let receipt = try await webhook(receiver).deliver([event(1), event(2)])

        #expect(receipt.refused == ["d1"] && receipt.delivered == ["d2"])
        #expect(receipt.failure == nil)
    }

    private func webhook(_ receiver: Receiver) throws -> EventWebhook {
        try webhook(ManualWallClock(), receiver)
    }

    @Test func `a file has one line per event, and is rotated when it is full`() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "events-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "events.jsonl").path()
        let file = EventFile(path: path, limit: 40, kept: 2)
        for number in 1...8 { _ = await file.deliver([event(number), event(number)]) }

        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path()).sorted()
        #expect(names == ["events.jsonl", "events.jsonl.1", "events.jsonl.2"])
        let newest = try String(contentsOfFile: path, encoding: .utf8)
        #expect(newest == "{\"number\":8}\n{\"number\":8}\n")
    }

    @Test func `a line that a crash cut off is ended before the next one`() async throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "events-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "events.jsonl").path()
        try Data(#"{"numb"#.utf8).write(to: URL(filePath: path))

        _ = await EventFile(path: path, limit: 1_000, kept: 2).deliver([event(1)])
        let text = try String(contentsOfFile: path, encoding: .utf8)
        #expect(text == "{\"numb\n{\"number\":1}\n")
    }

    @Test func `a file that cannot be written delivers nothing`() async {
        let file = EventFile(path: "/nowhere/events.jsonl", limit: 1_000, kept: 2)
        let receipt = await file.deliver([event(1)])

        #expect(receipt.delivered.isEmpty && receipt.failure != nil)
    }

    @Test func `pauses grow after failures, and waiting events are counted after a minute`() {
        var backoff = DeliveryBackoff()
        var pauses: [Duration?] = []
        for _ in 1...12 { pauses.append(backoff.pause(after: .failed)) }

        #expect(pauses.prefix(4) == [.seconds(1), .seconds(2), .seconds(4), .seconds(8)])
        #expect(pauses.last == EventDelivery.longestPause)
        #expect(backoff.mustCount)
        #expect(backoff.pause(after: .delivered(isFull: true)) == nil)
        #expect(backoff.pause(after: .idle) == EventDelivery.idle)
        #expect(!backoff.mustCount)
    }

    @Test func `pauses stay short while events of some accounts are accepted`() {
        var backoff = DeliveryBackoff()
        var pauses: [Duration?] = []
        for _ in 1...12 { pauses.append(backoff.pause(after: .partial)) }

        #expect(pauses.first == .seconds(1))
        #expect(pauses.last == EventDelivery.longestPartialPause)
    }

    @Test(arguments: ["https://name:word@example.org/hook", "https://name@example.org/"])
    func `a webhook with credentials in its URL is refused`(url: String) throws {
        let setting = try #require(Setting.events.first { $0.key == "events.webhook" })
        var settings = ServerSettings()
        #expect(!setting.set(url, in: &settings))
    }
}

/// The whole path: a guest is created, and the event is in the file.
@Suite("Events of a server", .bounded)
struct ServerEventTests {
    /// A sink that fails until it recovers.
    private final class Sink: EventSink {
        private struct State {
            var isDown = true
            var ids: [String] = []
        }

        private let state = Mutex(State())

        var ids: [String] { state.withLock(\.ids) }

        func recover() { state.withLock { $0.isDown = false } }

        func deliver(_ events: [OutgoingEvent]) async -> EventReceipt {
            state.withLock { state in
                guard !state.isDown else { return EventReceipt(failure: "down") }
                state.ids += events.map(\.id)
                return EventReceipt(delivered: events.map(\.documentID))
            }
        }

        func close() async {}
    }

    /// A sink that never accepts the events of one account, or of none.
    private final class Picky: EventSink {
        let refused: String?
        private let state = Mutex<(tried: Int, ids: Set<String>)>((0, []))

        init(refusing subject: String?) { refused = subject }

        var tried: Int { state.withLock(\.tried) }
        var ids: Set<String> { state.withLock(\.ids) }

        func deliver(_ events: [OutgoingEvent]) async -> EventReceipt {
            var receipt = EventReceipt()
            for event in events {
                state.withLock { $0.tried += 1 }
                if let refused, event.subject != refused {
                    receipt.delivered.append(event.documentID)
                    state.withLock { _ = $0.ids.insert(event.id) }
                } else {
                    receipt.failed.insert(event.subject)
                    receipt.failure = "503"
                }
            }
            return receipt
        }

        func close() async {}
    }

    /// Returns an authority in which one account has all events of the first batches, and another
    /// has the last event; and the subject of the first one.
    private func crowded() async throws -> (Authority, subject: String) {
        var settings = AuthoritySettings()
        settings.recordsEvents = true
        let storage = MemoryStorage()
        let authority = Authority(storage: storage, keys: SigningKeys(), settings: settings)
        let now = ManualWallClock().now()
        let (loud, quiet) = (Identifier(at: now), Identifier(at: now))
        let many = (1...EventDelivery.batch * 2 + 50).map { _ in loud }
        for account in many + [quiet] {
            let event = AnalyticsEvent(.purchase, of: account, at: now)
            try await authority.perform(
                Command(keys: []) { _ in Decision((), changes: [.event(event)]) }
            )
        }
        return (authority, authority.subject(of: loud))
    }

    private func delivery(_ authority: Authority, _ sink: any EventSink) -> EventDelivery {
        EventDelivery(
            authority: authority,
            sink: sink,
            limit: 1_000,
            delay: ContinuousClock(),
            metrics: OpenMetricsRegistry(),
            logger: Logger(label: "test")
        )
    }

    @Test func `events of one account that are never accepted do not block another account`()
        async throws
    {
        let (authority, loud) = try await crowded()
        let sink = Picky(refusing: loud)

        #expect(await delivery(authority, sink).deliverOnce() == .partial)
        #expect(sink.ids.count == 1)
        #expect(
            try await authority.waitingEvents(limit: 1_000).count == EventDelivery.batch * 2 + 50
        )
    }

    @Test func `a receiver that is down gets one event behind the first batch`() async throws {
        let (authority, _) = try await crowded()
        let sink = Picky(refusing: nil)

        #expect(await delivery(authority, sink).deliverOnce() == .failed)
        #expect(sink.tried == EventDelivery.batch + 1)
    }

    @Test func `events survive a receiver that is down, and are delivered once it is up`()
        async throws
    {
        var settings = AuthoritySettings()
        settings.recordsEvents = true
        let authority = Authority(
            storage: MemoryStorage(),
            keys: SigningKeys(),
            settings: settings
        )
        let guest = GuestRequest(
            deviceId: "device-0123456789",
            deviceSecret: Base64URL.encode([UInt8](repeating: 7, count: 32))
        )
        _ = try await authority.guest(guest)
        let sink = Sink()
        let delivery = EventDelivery(
            authority: authority,
            sink: sink,
            limit: 1_000,
            delay: ContinuousClock(),
            metrics: OpenMetricsRegistry(),
            logger: Logger(label: "test")
        )

        #expect(await delivery.deliverOnce() == .failed)
        sink.recover()
        #expect(await delivery.deliverOnce() == .delivered(isFull: false))
        #expect(await delivery.deliverOnce() == .idle)
        #expect(sink.ids.count == 1)
    }
}
