import Synchronization

/// The streams of refused uses of quotas, which outlive users.
///
/// Mutable state: the streams, guarded by their mutex, which may be taken under any other lock.
final class QuotaRefusals: Sendable {
    private struct Guarded {
        var streams: [Int: AsyncStream<QuotaRefusal>.Continuation] = [:]
        var last = 0
    }

    private let guarded = Mutex(Guarded())

    /// Returns a stream of later refusals, which ends with its reader's task.
    func stream() -> AsyncStream<QuotaRefusal> {
        let (stream, sink) = AsyncStream.makeStream(
            of: QuotaRefusal.self,
            bufferingPolicy: .bufferingNewest(MetricsLimits.waitingEvents)
        )
        let number = guarded.withLock { guarded in
            guarded.last += 1
            guarded.streams[guarded.last] = sink
            return guarded.last
        }
        sink.onTermination = { [weak self] _ in
            _ = self?.guarded.withLock { $0.streams.removeValue(forKey: number) }
        }
        return stream
    }

    /// Delivers a refusal to all streams.
    func post(_ refusal: QuotaRefusal) {
        let sinks = guarded.withLock { Array($0.streams.values) }
        for sink in sinks { sink.yield(refusal) }
    }

    deinit {
        for sink in guarded.withLock({ Array($0.streams.values) }) { sink.finish() }
    }
}
