import Foundation

extension SanguineClient {
    /// The behavior of the network for a preview client.
    ///
    /// See ``SanguineClient/preview(_:network:_:)``.
    public enum PreviewNetwork: Sendable, Hashable {
        /// No response arrives: values that were not set are fetched forever.
        case silent
        /// The network is unreachable: values that were not set have failed, and those that were
        /// set are marked as old.
        case offline
    }
}

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
