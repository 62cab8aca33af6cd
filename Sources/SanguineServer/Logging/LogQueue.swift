import Dispatch
import Foundation
import SanguineAuthority
public import SanguineModel
import Synchronization

/// Accepts log lines from any thread, and writes them on its own thread.
///
/// Logging never blocks, even if the disk is slow or the reader of a pipe stops reading.
///
/// ```swift
/// let log = LogQueue(sink: StandardStream.error)
/// LoggingSystem.bootstrap { JSONLogHandler(label: $0, queue: log) }
/// await log.flush(within: .seconds(1))  // Before the process ends.
/// ```
///
/// Invariants:
/// 1. At most ``limitBytes`` are waiting or being written. Further lines are dropped and counted.
///    When there is room again, a line contains their number:
///    `{"time":…,"type":"linesDropped","count":7}`.
/// 2. Access log entries may use at most seven eighths of that, so that requests do not displace
///    the log lines that explain why they fail.
/// 3. Lines are written in the order in which they were appended.
/// 4. No lock is held while a line is encoded or written.
public final class LogQueue: Sendable {
    /// The queue for the process's standard error.
    public static let standardError = LogQueue(sink: StandardStream.error)

    /// The default maximum of waiting bytes: 8 MiB.
    public static let defaultLimitBytes = 8 << 20

    /// The maximum number of lines that are passed to the sink at once.
    static let linesPerWrite = 256

    /// The time for which access log entries wait for others when no log line is waiting: 5 ms.
    static let gatherTime = DispatchTimeInterval.milliseconds(5)

    private let writer: LogWriter

    /// Creates a queue and starts its thread, which ends with the queue.
    ///
    /// - Parameters:
    ///   - sink: The destination of the lines.
    ///   - limitBytes: The maximum number of waiting bytes; an access log entry counts as 1 KiB,
    ///     its maximum length. Default: 8 MiB.
    ///   - clock: The time of the lines that report dropped ones.
    public init(
        sink: any LogSink,
        limitBytes: Int = LogQueue.defaultLimitBytes,
        clock: any WallClock = SystemWallClock()
    ) {
        precondition(limitBytes > 0, "A log queue must hold at least one byte.")
        let writer = LogWriter(sink: sink, limitBytes: limitBytes, clock: clock)
        self.writer = writer
        let thread = Thread(named: "sanguine.log") { writer.run() }
        thread.start()
    }

    deinit { writer.end() }

    /// The maximum number of waiting bytes.
    public var limitBytes: Int { writer.limitBytes }

    /// The total number of dropped lines.
    public var dropped: Int { writer.state.withLock { $0.droppedInAll } }

    /// Appends a line, which includes its line feed, and returns at once.
    public func append(_ line: [UInt8]) { writer.append(.line(line)) }

    /// Appends an access log entry and returns at once, in well under 2 µs.
    public func append(_ entry: AccessLogEntry) { writer.append(.access(entry)) }

    /// Waits until all lines appended earlier were passed to the sink, or until the timeout.
    ///
    /// A blocked sink cannot be interrupted: the lines are lost if the process then ends.
    ///
    /// - Parameters:
    ///   - limit: The timeout.
    ///   - delay: The clock for the timeout.
    /// - Returns: Whether all lines were passed to the sink.
    @discardableResult
    public func flush(
        within limit: Duration,
        delay: any Clock<Duration> = ContinuousClock()
    ) async -> Bool {
        let (ends, end) = AsyncStream.makeStream(
            of: Bool.self,
            bufferingPolicy: .bufferingOldest(1)
        )
        writer.whenWritten { end.yield(true) }
        let timer = Task {
            try? await delay.sleep(for: limit)
            end.yield(false)
        }
        defer { timer.cancel() }
        return await ends.first { _ in true } ?? false
    }
}

/// The state shared by the queue and its thread; it outlives the queue if the sink is blocked.
///
/// Mutable state: `state`, guarded by its mutex. `wake` is signalled each time `isAsleep` becomes
/// false, `hurry` for items that must not wait for others.
private final class LogWriter: Sendable {
    enum Item: Sendable {
        case line([UInt8])
        case access(AccessLogEntry)

        /// The size that it counts as while it waits.
        var bytes: Int {
            switch self {
            case .line(let line): line.count
            case .access: AccessLogEntry.lineBytes
            }
        }
    }

    struct State {
        var waiting: [Item] = []
        /// Bytes that are waiting or being written.
        var bytes = 0
        var droppedSinceLine = 0
        var droppedInAll = 0
        var isAsleep = false
        var isEnding = false
        /// Called when all items appended before them are written.
        var flushes: [@Sendable () -> Void] = []
    }

    let limitBytes: Int
    let state = Mutex(State())
    private let wake = DispatchSemaphore(value: 0)
    private let hurry = DispatchSemaphore(value: 0)
    private let sink: any LogSink
    private let clock: any WallClock

    init(sink: any LogSink, limitBytes: Int, clock: any WallClock) {
        self.sink = sink
        self.limitBytes = limitBytes
        self.clock = clock
    }

    func append(_ item: Item) {
        let mustWake = state.withLock { state in
            let limit =
                switch item {
                case .line: limitBytes
                case .access: limitBytes - limitBytes / 8
                }
            guard state.bytes + item.bytes <= limit else {
                state.droppedSinceLine += 1
                state.droppedInAll += 1
                return false
            }
            state.waiting.append(item)
            state.bytes += item.bytes
            return Self.awaken(&state)
        }
        guard mustWake else { return }
        wake.signal()
        if case .line = item { hurry.signal() }
    }

    /// Calls `tell` when all items that wait now are written.
    func whenWritten(_ tell: @escaping @Sendable () -> Void) {
        let mustWake = state.withLock { state in
            state.flushes.append(tell)
            return Self.awaken(&state)
        }
        if mustWake { wake.signal() }
        hurry.signal()
    }

    /// Ends the thread after it has written the waiting items.
    func end() {
        let mustWake = state.withLock { state in
            state.isEnding = true
            return Self.awaken(&state)
        }
        if mustWake { wake.signal() }
        hurry.signal()
    }

    private static func awaken(_ state: inout State) -> Bool {
        defer { state.isAsleep = false }
        return state.isAsleep
    }

    // MARK: - The thread

    func run() {
        while true {
            let (items, dropped, flushes, isEnding) = state.withLock { state in
                let turn = (
                    state.waiting, state.droppedSinceLine, state.flushes, state.isEnding
                )
                state.waiting = []
                state.droppedSinceLine = 0
                state.flushes = []
                state.isAsleep = turn.0.isEmpty && turn.1 == 0 && turn.2.isEmpty && !turn.3
                return turn
            }
            write(items)
            if dropped > 0 { sink.write(line(ofDropped: dropped)) }
            for tell in flushes { tell() }
            guard items.isEmpty && dropped == 0 && flushes.isEmpty else { continue }
            if isEnding { return }
            wake.wait()
            // Access log entries gather here: a wake-up for each would cost more than writing it.
            let pause = LogQueue.gatherTime
            _ = hurry.wait(timeout: .now() + pause)  // tidy: allow hidden-clock: a pause.
        }
    }

    private func write(_ items: [Item]) {
        var rest = items[...]
        while !rest.isEmpty {
            let batch = rest.prefix(LogQueue.linesPerWrite)
            rest = rest.dropFirst(LogQueue.linesPerWrite)
            var lines: [UInt8] = []
            for item in batch {
                switch item {
                case .line(let line): lines += line
                case .access(let entry): lines += entry.line()
                }
            }
            sink.write(lines)
            let bytes = batch.reduce(0) { $0 + $1.bytes }
            state.withLock { $0.bytes -= bytes }
        }
    }

    private func line(ofDropped count: Int) -> [UInt8] {
        var line = JSONLine(limit: AccessLogEntry.lineBytes)
        line.add("time", clock.now().description)
        line.add("type", "linesDropped")
        line.add("count", count)
        return line.finish()
    }
}
