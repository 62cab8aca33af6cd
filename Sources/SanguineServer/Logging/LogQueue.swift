import Dispatch
import Foundation
public import SanguineModel
import Synchronization

/// Takes a log's lines from any thread, and writes them on a thread of its own.
///
/// Whoever logs never waits: neither for the disk nor for a reader of a pipe who has stopped
/// reading.
///
/// ```swift
/// let log = LogQueue(sink: StandardStream.error)
/// LoggingSystem.bootstrap { JSONLogHandler(label: $0, queue: log) }
/// await log.flush(within: .seconds(1))  // Before the process ends.
/// ```
///
/// Invariants:
/// 1. Never more than ``limitBytes`` wait or are being written. What comes then is dropped and
///    counted, and a line of its own says how many there were once there is room:
///    `{"time":…,"type":"linesDropped","count":7}`.
/// 2. Entries of the access log leave an eighth of that to the lines of the log, so that requests
///    do not push out what says why they fail.
/// 3. Lines are written in the order in which they were taken.
/// 4. No lock is held while a line is made or written.
public final class LogQueue: Sendable {
    /// The queue before the process's standard error.
    public static let standardError = LogQueue(sink: StandardStream.error)

    /// Bytes that wait at most, by default: 8 MiB.
    public static let defaultLimitBytes = 8 << 20

    /// Lines that are handed to the sink at a time, at most.
    static let linesPerWrite = 256

    /// How long entries of the access log wait for others, when nothing else is written: 5 ms.
    static let gatherTime = DispatchTimeInterval.milliseconds(5)

    private let writer: LogWriter

    /// Creates a queue, whose thread lives as long as it does.
    ///
    /// - Parameters:
    ///   - sink: Where the lines go.
    ///   - limitBytes: How many bytes may wait; an entry of the access log counts as
    ///     1 KiB, the most that it can have. Default: 8 MiB.
    ///   - clock: What tells the time of the line that says how many were dropped.
    public init(
        sink: any LogSink,
        limitBytes: Int = LogQueue.defaultLimitBytes,
        clock: any WallClock = SystemWallClock()
    ) {
        precondition(limitBytes > 0, "A queue that holds nothing drops every line.")
        let writer = LogWriter(sink: sink, limitBytes: limitBytes, clock: clock)
        self.writer = writer
        let thread = Thread { writer.run() }
        thread.name = "sanguine.log"
        thread.start()
    }

    deinit { writer.end() }

    /// Bytes that wait at most.
    public var limitBytes: Int { writer.limitBytes }

    /// How many lines were dropped since the start, because the sink was too slow.
    public var dropped: Int { writer.state.withLock { $0.droppedInAll } }

    /// Takes a line, with its line feed, and returns at once.
    public func append(_ line: [UInt8]) { writer.append(.line(line)) }

    /// Takes an entry of the access log, and returns at once: in well under 2 µs.
    public func append(_ entry: AccessLogEntry) { writer.append(.access(entry)) }

    /// Returns once everything taken before has been handed to the sink, or the time is over.
    ///
    /// A sink that hangs cannot be hurried: a process that ends after this leaves it behind.
    ///
    /// - Parameters:
    ///   - limit: The longest wait.
    ///   - delay: The clock that waits.
    /// - Returns: Whether everything was handed over.
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

/// What the queue and its thread share; it outlives the queue if the sink hangs.
///
/// Mutable state: `state`, by its mutex. `wake` is signalled once for each time that `isAsleep`
/// becomes false, `hurry` for what must not wait until more has gathered.
private final class LogWriter: Sendable {
    enum Item: Sendable {
        case line([UInt8])
        case access(AccessLogEntry)

        /// What it counts for while it waits.
        var bytes: Int {
            switch self {
            case .line(let line): line.count
            case .access: AccessLogEntry.lineBytes
            }
        }
    }

    struct State {
        var waiting: [Item] = []
        /// Bytes of what waits and of what is being written.
        var bytes = 0
        var droppedSinceLine = 0
        var droppedInAll = 0
        var isAsleep = false
        var isEnding = false
        /// Called when all that was taken before them is written.
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

    /// Calls when all that waits now is written.
    func whenWritten(_ tell: @escaping @Sendable () -> Void) {
        let mustWake = state.withLock { state in
            state.flushes.append(tell)
            return Self.awaken(&state)
        }
        if mustWake { wake.signal() }
        hurry.signal()
    }

    /// Lets the thread end once it has written what waits.
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
            // Entries of the access log gather: one wake-up for each would cost more than they do.
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
