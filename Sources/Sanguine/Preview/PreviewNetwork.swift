import Foundation

extension SanguineClient {
    /// What the network of a client for previews does.
    ///
    /// See ``SanguineClient/preview(_:network:_:)``.
    public enum PreviewNetwork: Sendable, Hashable {
        /// It never answers: what was not set is on its way for good.
        case silent
        /// It cannot be reached: what was not set has failed, and what was set is marked as old.
        case offline
    }
}

/// A network that carries nothing.
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

/// A clock that stands still: what waits by it waits until it is cancelled.
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

/// Returns when the task is cancelled, and not before.
private func untilCancelled() async {
    let (stream, waiting) = AsyncStream.makeStream(of: Never.self)
    await withTaskCancellationHandler {
        for await _ in stream {}
    } onCancel: {
        waiting.finish()
    }
}
