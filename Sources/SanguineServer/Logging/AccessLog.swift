import Dispatch
import SanguineModel
import Synchronization

/// Writes access log entries beside the requests' threads, and never makes a request wait.
///
/// ```swift
/// let log = AccessLog()
/// log.record(entry)   // Well under 2 µs: one short lock.
/// await log.flush()   // Before the process ends.
/// ```
///
/// Invariants:
/// 1. Never more than `capacity` entries wait. What comes when they do is dropped and counted, and
///    a line of its own says how many once there is room:
///    `{"time":…,"type":"accessDropped","count":7}`.
/// 2. Entries are written in the order in which they were recorded.
/// 3. At most one job is scheduled on the queue, besides flushes.
public final class AccessLog: Sendable {
    /// Entries that wait at most, by default: 8,192, a tenth of a second at full load.
    public static let defaultCapacity = 8_192

    private struct State {
        var waiting: [AccessLogEntry] = []
        var droppedSinceLine = 0
        var droppedInAll = 0
        var isScheduled = false
    }

    // The mutable state; a request's thread holds it for an append, the writer for a swap.
    //
    // A mutex and a queue rather than an actor, because recording must not suspend, and because the
    // sink may block, which threads of the cooperative pool must not.
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "sanguine.access-log", qos: .utility)
    private let sink: any LogSink
    private let capacity: Int

    /// Creates a log.
    ///
    /// - Parameters:
    ///   - sink: Where the lines go. Default: standard error.
    ///   - capacity: How many entries may wait. Default: 8,192.
    public init(
        sink: any LogSink = StandardStream.error,
        capacity: Int = AccessLog.defaultCapacity
    ) {
        precondition(capacity > 0, "A log that holds nothing drops every entry.")
        self.sink = sink
        self.capacity = capacity
    }

    /// How many entries were dropped since the start, because the sink was too slow.
    public var dropped: Int { state.withLock { $0.droppedInAll } }

    /// Takes the entry and returns at once.
    public func record(_ entry: AccessLogEntry) {
        let mustSchedule = state.withLock { state in
            guard state.waiting.count < capacity else {
                state.droppedSinceLine += 1
                state.droppedInAll += 1
                return false
            }
            state.waiting.append(entry)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustSchedule { queue.async { self.drain() } }
    }

    /// Returns once everything recorded before has been handed to the sink.
    public func flush() async {
        await withCheckedContinuation { continuation in
            queue.async {
                self.drain()
                continuation.resume()
            }
        }
    }

    private func drain() {
        while true {
            let (entries, dropped) = state.withLock { state in
                defer {
                    // Scheduled until a turn finds nothing: then the next entry schedules again.
                    state.isScheduled = !state.waiting.isEmpty
                    state.waiting.removeAll()
                    state.droppedSinceLine = 0
                }
                return (state.waiting, state.droppedSinceLine)
            }
            guard let last = entries.last else { return }
            var lines: [UInt8] = []
            lines.reserveCapacity(entries.count * 224)
            for entry in entries { lines += entry.line() }
            if dropped > 0 {
                var line = JSONLine(limit: AccessLogEntry.lineBytes)
                line.add("time", last.time.description)
                line.add("type", "accessDropped")
                line.add("count", dropped)
                lines += line.finish()
            }
            sink.write(lines)
        }
    }
}
