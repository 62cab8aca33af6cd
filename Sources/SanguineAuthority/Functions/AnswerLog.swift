import SanguineModel
import Synchronization

/// The parts of one run's answer: what is not stored yet, and a window of what was made last.
///
/// Any number of readers follow it, each at its own place; one that falls behind the window reads
/// on from the storage. So a slow reader holds up nobody and costs no memory, and the run is held
/// up by the storage alone.
///
/// Invariants:
/// 1. `parts` are the parts from `base` on, without gaps; those before `base` are stored.
/// 2. What is stored and kept has at most ``windowBytes``; what is not stored at most
///    ``unstoredBytes`` and a part of each writer that waits for ``room()``, or does not wait
///    because the run was cut short.
/// 3. Nothing is added after the end.
///
/// Mutable state: one `State`, guarded by its mutex. Who waits is resumed outside of it.
final class AnswerLog: Sendable {
    /// What a reader finds at its place.
    enum Slice: Sendable {
        /// The parts from there on.
        case parts([String])
        /// They are in the storage.
        case stored
        /// There are no more: the answer has so many parts.
        case ended(count: Int64)
        /// Nothing came for a while.
        case quiet
    }

    fileprivate struct State {
        var base: Int64 = 0
        var parts: [String] = []
        var storedThrough: Int64 = 0
        var storedBytes = 0
        var unstored = 0
        var isCut = false
        var hasEnded = false
        var progress = CallProgress()
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

    /// Bytes of stored parts that are kept for readers.
    static let windowBytes = 16 << 10
    /// Bytes of parts that wait to be stored; the run waits at more.
    static let unstoredBytes = 256 << 10

    private let state = Mutex(State())

    /// What was made so far.
    var progress: CallProgress { state.withLock { $0.progress } }

    /// How many parts there are.
    var count: Int64 { state.withLock { $0.end } }

    /// Records what the upstream has made and reported so far.
    func report(_ progress: CallProgress) {
        state.withLock { state in
            if !state.hasEnded { state.progress = progress }
        }
    }

    // MARK: - The run

    /// Adds a part, of which so many bytes are the upstream's words; an empty part is none.
    ///
    /// What comes after the run was cut short, and has no room, is counted and not kept.
    ///
    /// - Returns: Whether it is the first.
    func append(_ text: String, bytes: Int) -> Bool {
        guard !text.isEmpty else { return false }
        let (readers, isFirst) = state.withLock { state -> (Readers, Bool) in
            guard !state.hasEnded else { return ([], false) }
            state.progress.add(bytes: bytes)
            guard !state.isCut || !state.isFull else { return ([], false) }
            state.parts.append(text)
            state.unstored += text.utf8.count
            return (state.takeReaders(), state.end == 1)
        }
        for reader in readers { reader.resume(returning: nil) }
        return isFirst
    }

    /// Waits while too much is not stored yet; not in a task that is cancelled.
    func room() async {
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

    /// The run is cut short: it waits for nothing any more.
    func cut() {
        let waiting = state.withLock { state in
            state.isCut = true
            return state.takeWaiters()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// No part comes any more.
    func end() {
        let (readers, waiting) = state.withLock { state in
            state.hasEnded = true
            return (state.takeReaders(), state.takeWaiters())
        }
        for reader in readers { reader.resume(returning: nil) }
        for waiter in waiting { waiter.resume() }
    }

    // MARK: - The storage

    /// The parts that are not stored yet, and the index of the first; `nil` if there are none.
    func unstored() -> (first: Int64, texts: [String])? {
        state.withLock { state in
            guard state.storedThrough < state.end else { return nil }
            let texts = state.parts.dropFirst(Int(state.storedThrough - state.base))
            return (state.storedThrough, Array(texts))
        }
    }

    /// The parts before that index are stored.
    func stored(through index: Int64) {
        let waiting = state.withLock { state in
            state.stored(through: index)
            return state.takeWaiters()
        }
        for waiter in waiting { waiter.resume() }
    }

    /// Waits until the parts before that index are stored, or no part comes any more.
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

    /// Lets every reader that waits look again.
    func wakeAll() {
        for reader in state.withLock({ $0.takeReaders() }) { reader.resume(returning: .quiet) }
    }

    /// Lets a reader that waits know that nothing came.
    func beQuiet(_ reader: UInt64) {
        state.withLock { $0.readers.removeValue(forKey: reader) }?.resume(returning: .quiet)
    }

    /// The number of a new reader.
    func makeNumber() -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
    }

    /// Waits for what follows at a place.
    ///
    /// A cancelled task gets ``Slice/quiet``.
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
                    if Task.isCancelled { return .some(.quiet) }
                    if let slice = state.slice(at: index) { return .some(slice) }
                    state.readers[number] = continuation
                    return .none
                }
                if let result { continuation.resume(returning: result) }
            }
        } onCancel: {
            state.withLock { $0.readers.removeValue(forKey: number) }?.resume(returning: .quiet)
        }
    }
}

extension AnswerLog.State {
    fileprivate mutating func takeReaders() -> AnswerLog.Readers {
        defer { readers = [:] }
        return Array(readers.values)
    }

    /// Those who wait for what has come about.
    fileprivate mutating func takeWaiters() -> [AnswerLog.Waiter] {
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
