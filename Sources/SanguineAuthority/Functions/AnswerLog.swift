import SanguineModel
import Synchronization

/// The parts of one run's answer: those that are not stored yet, and a window of the newest.
///
/// Any number of readers follow it, each at its own position. A reader that falls behind the window
/// continues from the storage. So a slow reader delays no other and uses no memory, and the run
/// waits only for the storage.
///
/// Invariants:
/// 1. `parts` are the parts from `base` on, without gaps; those before `base` are stored.
/// 2. Stored parts in memory take at most ``windowBytes``. Parts that are not stored take at most
///    ``unstoredBytes``, plus one part for each writer that waits for ``waitForSpace()``, or that
///    does not wait because the run was cut short.
/// 3. Nothing is added after the end.
///
/// Mutable state: one `State`, guarded by its mutex. Waiting callers are resumed without
/// holding it.
final class AnswerLog: Sendable {
    /// The result of reading at a position.
    enum Slice: Sendable {
        /// The parts from that position on.
        case parts([String])
        /// The parts are only in the storage.
        case stored
        /// There are no more parts; the answer has `count` of them.
        case ended(count: Int64)
        /// No part arrived for a while.
        case idle
    }

    fileprivate struct State {
        var base: Int64 = 0
        var parts: [String] = []
        var storedThrough: Int64 = 0
        var storedBytes = 0
        var unstored = 0
        var isCut = false
        var hasEnded = false
        var progress = RunProgress()
        var lastNumber: UInt64 = 0
        var readers: [UInt64: CheckedContinuation<Slice?, Never>] = [:]
        var waitingForRoom: [UInt64: Waiter] = [:]
        var waitingForStore: [(index: Int64, waiter: Waiter)] = []

        var end: Int64 { base + Int64(parts.count) }
        var isFull: Bool { unstored > AnswerLog.unstoredBytes }
        var hasRoom: Bool { !isFull || isCut || hasEnded }
    }

    fileprivate typealias Readers = [CheckedContinuation<Slice?, Never>]
    fileprivate typealias Waiter = CheckedContinuation<Void, Never>

    /// The size in bytes of the stored parts that stay in memory for readers.
    static let windowBytes = 16 << 10
    /// The size in bytes of parts to store; beyond it the run waits.
    static let unstoredBytes = 256 << 10

    private let state = Mutex(State())

    /// The progress of the run.
    var progress: RunProgress { state.withLock { $0.progress } }

    /// The number of parts.
    var count: Int64 { state.withLock { $0.end } }

    /// Records the output and usage of the upstream so far.
    func report(_ progress: RunProgress) {
        state.withLock { state in
            if !state.hasEnded { state.progress = progress }
        }
    }

    // MARK: - The run

    /// Adds a part, of which `bytes` are output of the upstream; an empty part is ignored.
    ///
    /// After the run was cut short, parts without room are counted, but not stored.
    ///
    /// - Returns: Whether it is the first part.
    func append(_ text: String, bytes: Int) -> Bool {
        guard !text.isEmpty else { return false }
        let (readers, isFirst) = state.withLock { state -> (Readers, Bool) in
            guard !state.hasEnded else { return ([], false) }
            state.progress.add(bytes: bytes)
            guard !state.isCut || !state.isFull else { return ([], false) }
            state.parts.append(text)
            state.unstored += text.utf8.count
            return (state.removeReaders(), state.end == 1)
        }
        for reader in readers { reader.resume(returning: nil) }
        return isFirst
    }

    /// Waits while too many parts are not stored yet; returns at once in a cancelled task.
    func waitForSpace() async {
        guard state.withLock({ !$0.hasRoom }) else { return }
        let number = makeNumber()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.hasRoom || Task.isCancelled { return true }
                    state.waitingForRoom[number] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waitingForRoom.removeValue(forKey: number) }?.resume()
        }
    }

    /// Marks the run as cut short, after which it no longer waits.
    func cut() {
        let waiting = state.withLock { state in
            state.isCut = true
            return state.removeReadyWaiters()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Marks the end of the parts.
    func end() {
        let (readers, waiting) = state.withLock { state in
            state.hasEnded = true
            return (state.removeReaders(), state.removeReadyWaiters())
        }
        for reader in readers { reader.resume(returning: nil) }
        for waiter in waiting { waiter.resume() }
    }

    // MARK: - The storage

    /// Returns the parts that are not stored yet, and the first index; `nil` if there are none.
    func unstored() -> (first: Int64, texts: [String])? {
        state.withLock { state in
            guard state.storedThrough < state.end else { return nil }
            let texts = state.parts.dropFirst(Int(state.storedThrough - state.base))
            return (state.storedThrough, Array(texts))
        }
    }

    /// Records that the parts before the index are stored.
    func stored(through index: Int64) {
        let waiting = state.withLock { state in
            state.stored(through: index)
            return state.removeReadyWaiters()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits until the parts before the index are stored, or until the end of the parts.
    func waitUntilStored(through index: Int64) async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                if state.storedThrough >= index || state.hasEnded { return true }
                state.waitingForStore.append((index, continuation))
                return false
            }
            if isOver { continuation.resume() }
        }
    }

    // MARK: - Readers

    /// Wakes all waiting readers.
    func wakeAll() {
        for reader in state.withLock({ $0.removeReaders() }) { reader.resume(returning: .idle) }
    }

    /// Wakes a waiting reader without parts.
    func wakeWithoutParts(_ reader: UInt64) {
        state.withLock { $0.readers.removeValue(forKey: reader) }?.resume(returning: .idle)
    }

    /// Returns the number of a new reader.
    func makeNumber() -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    /// Waits for the parts at a position.
    ///
    /// A cancelled task receives ``Slice/idle``.
    func next(at index: Int64, for reader: UInt64) async -> Slice {
        while true {
            if let slice = state.withLock({ $0.slice(at: index) }) { return slice }
            if let slice = await wait(at: index, reader) { return slice }
        }
    }

    private func wait(at index: Int64, _ number: UInt64) async -> Slice? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let result = state.withLock { state -> Slice?? in
                    if Task.isCancelled { return .some(.idle) }
                    if let slice = state.slice(at: index) { return .some(slice) }
                    state.readers[number] = continuation
                    return .none
                }
                if let result { continuation.resume(returning: result) }
            }
        } onCancel: {
            state.withLock { $0.readers.removeValue(forKey: number) }?.resume(returning: .idle)
        }
    }
}

extension AnswerLog.State {
    fileprivate mutating func removeReaders() -> AnswerLog.Readers {
        defer { readers = [:] }
        return Array(readers.values)
    }

    /// Removes and returns the waiters whose condition is met.
    fileprivate mutating func removeReadyWaiters() -> [AnswerLog.Waiter] {
        var taken: [AnswerLog.Waiter] = []
        if hasRoom {
            taken += waitingForRoom.values
            waitingForRoom = [:]
        }
        taken += waitingForStore.filter { $0.index <= storedThrough || hasEnded }.map(\.waiter)
        waitingForStore.removeAll { $0.index <= storedThrough || hasEnded }
        return taken
    }

    fileprivate mutating func stored(through index: Int64) {
        guard index > storedThrough else { return }
        for text in parts[Int(storedThrough - base)..<Int(index - base)] {
            storedBytes += text.utf8.count
            unstored -= text.utf8.count
        }
        storedThrough = index
        var gone = 0
        while storedBytes > AnswerLog.windowBytes, gone < Int(index - base) {
            storedBytes -= parts[gone].utf8.count
            gone += 1
        }
        parts.removeFirst(gone)
        base += Int64(gone)
    }

    fileprivate func slice(at index: Int64) -> AnswerLog.Slice? {
        if index < base { return .stored }
        if index < end { return .parts(Array(parts.dropFirst(Int(index - base)))) }
        return hasEnded ? .ended(count: end) : nil
    }
}
