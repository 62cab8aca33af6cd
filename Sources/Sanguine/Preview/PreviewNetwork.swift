import Foundation

/// A transport that sends nothing.
struct PreviewTransport: HTTPTransport {
    let network: SanguineClient.PreviewNetwork

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        switch network {
        case .offline: throw .offline("a preview has no network")
        case .silent:
            await untilCancelled()
            throw .cancelled
        }
    }
}

/// A clock that stands still: a sleep ends only with its cancellation.
struct StandingClock: Clock {
    struct Instant: InstantProtocol {
        var offset = Swift.Duration.zero

        func advanced(by duration: Swift.Duration) -> Instant { Instant(offset: offset + duration) }

        func duration(to other: Instant) -> Swift.Duration { other.offset - offset }

        static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }

    let now = Instant()
    let minimumResolution = Swift.Duration.zero

    func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws {
        await untilCancelled()
        throw CancellationError()
    }
}

/// Returns only when the task is cancelled.
private func untilCancelled() async {
    let (stream, waiting) = AsyncStream.makeStream(of: Never.self)
    await withTaskCancellationHandler {
        for await _ in stream {}
    } onCancel: {
        waiting.finish()
    }
}

extension SanguineClient.Configuration {
    /// The configuration of a client that stores nothing and sends nothing.
    func preview(_ network: SanguineClient.PreviewNetwork) -> Self {
        var configuration = self
        configuration.isInMemory = true
        configuration.transport = PreviewTransport(network: network)
        configuration.delay = StandingClock()
        configuration.lifecycle = AlwaysForeground()
        configuration.connectivity = AlwaysOnline()
        configuration.retries = false
        configuration.recordPolling = nil
        configuration.balancePolling = nil
        configuration.authorize = nil
        configuration.refresh = nil
        if configuration.server == nil {
            configuration.server = URL(string: "https://preview.invalid")
        }
        return configuration
    }
}
