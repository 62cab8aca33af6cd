import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// A function with a streamed answer; it costs 3 tokens.
struct Tell: FunctionCall {
    struct Input: Codable, Sendable {
        var seed: UInt64
        var parts: Int
        var isWaiting = false
    }
    typealias Output = String

    static let name = "tell"
    static let rules = FunctionRules(price: .fixed(3), streams: true)

    var input: Input

    init(seed: UInt64 = 1, parts: Int, isWaiting: Bool = false) {
        input = Input(seed: seed, parts: parts, isWaiting: isWaiting)
    }

    /// The parts that the server writes: line ends, quotes, event markers, multi-byte characters.
    var texts: [String] {
        var random = SplitMix64(seed: input.seed)
        let words = [
            "Once", " upon\n", "\n\n", "data: x", "\u{1F469}\u{200D}\u{1F680}", "\"é\"", "\r\n",
        ]
        return (0..<input.parts).map { "\($0)\(words.randomElement(using: &random) ?? "")" }
    }

    var text: String { texts.joined() }
}

/// The same function, queued while there is no network.
struct TellLater: FunctionCall {
    typealias Output = String

    static let name = "tell"
    static let rules = FunctionRules(price: .fixed(3), streams: true)
    static let whenOffline = OfflineCall.queue

    var input: Tell.Input

    init(seed: UInt64 = 1, parts: Int) { input = Tell.Input(seed: seed, parts: parts) }

    var text: String { Tell(seed: input.seed, parts: input.parts).text }
}

/// A network that delivers everything at once, whether or not its reader keeps up.
final class HastyTransport: StreamingTransport {
    private let base: InMemoryAuthority
    private let limitBytes: Int
    private let counted = Mutex(0)

    init(_ base: InMemoryAuthority, limitBytes: Int) {
        (self.base, self.limitBytes) = (base, limitBytes)
    }

    /// The number of connections that were closed early.
    var cuts: Int { counted.withLock { $0 } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        try await base.send(request)
    }

    func stream(_ request: TransportRequest) async throws(TransportError) -> TransportStream {
        let upstream = try await base.stream(request)
        let stream = TransportStream(
            response: upstream.response,
            limitBytes: limitBytes
        ) { [weak self] in
            upstream.cancel()
            self?.counted.withLock { $0 += 1 }
        }
        Task { [weak stream] in
            while let bytes = try? await upstream.next() { stream?.receive(bytes) }
            stream?.finish()
        }
        return stream
    }
}

/// A device and an authority that serves `tell`, with a network between them that can break.
struct StreamStage {
    static let path = "/v1/functions/tell"

    let authority: InMemoryAuthority
    let network: FaultyNetwork
    let device: TestDevice
    /// The number of parts that `tell` may write; it waits before each part if it was asked to.
    let allowed = WatchedState(0)

    init(seed: UInt64 = 1, settings: (InMemoryAuthority) -> Void = { _ in }) {
        let authority = InMemoryAuthority()
        self.authority = authority
        network = FaultyNetwork(authority, seed: seed, clock: SkippingClock())
        device = TestDevice(network: network, seed: seed) {
            $0.logger = .silent
            $0.delay = SkippingClock()
        }
        authority.serve(Tell.self) { [allowed] input, write in
            let call = Tell(seed: input.seed, parts: input.parts)
            for (index, text) in call.texts.enumerated() {
                if input.isWaiting {
                    try await allowed.wait(for: "part \(index)", within: TestingLimits.longestWait)
                    {
                        $0 > index
                    }
                }
                await write(text)
            }
            return call.text
        }
        settings(authority)
    }

    /// Lets `tell` write that many parts.
    func allow(_ parts: Int) { allowed.withLock { $0 = parts } }

    /// Returns a client that has fetched its 100 tokens.
    func launch() async throws -> SanguineClient {
        let client = try device.launch()
        _ = try await client.value(of: .balance)
        return client
    }

    /// Returns whether the client shows the server's balance once no hold is left.
    func isSettled(_ client: SanguineClient, available: Int64) async throws -> Bool {
        let server = authority.balance()
        let shown = try await client.refresh(.balance)
        return server.available == available && server.held == 0 && shown.available == available
            && shown.held == 0 && client.balance.pendingCalls.isEmpty
    }

    /// Returns the number of requests with a method and path that were carried.
    func count(_ request: String) -> Int { network.events.count { $0.request == request } }
}

extension FunctionStream {
    /// Returns all remaining parts.
    func parts() async throws(SanguineError) -> [String] {
        var parts: [String] = []
        var iterator = makeAsyncIterator()
        while let part = try await iterator.next() { parts.append(part) }
        return parts
    }

    /// Returns all remaining parts as one text.
    func rest() async throws(SanguineError) -> String {
        try await parts().joined()
    }

    /// Returns the complete answer.
    func whole() async throws(SanguineError) -> FunctionResult<Output> {
        try await result
    }
}
