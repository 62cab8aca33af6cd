import Synchronization

/// The streams of one kind of event, each with the later events.
///
/// Mutable state: the streams, guarded by their mutex, which may be taken under any other lock.
final class EventStreams<Event: Sendable>: Sendable {
    private struct Guarded {
        var streams: [Int: AsyncStream<Event>.Continuation] = [:]
        var last = 0
    }

    private let guarded = Mutex(Guarded())

    /// Returns a stream of later events, which ends with its reader's task.
    func stream() -> AsyncStream<Event> {
        let (stream, sink) = AsyncStream.makeStream(
            of: Event.self,
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

    /// Delivers an event to all streams.
    func post(_ event: Event) {
        let sinks = guarded.withLock { Array($0.streams.values) }
        for sink in sinks { sink.yield(event) }
    }

    deinit {
        for sink in guarded.withLock({ Array($0.streams.values) }) { sink.finish() }
    }
}
