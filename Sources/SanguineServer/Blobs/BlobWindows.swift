import SanguineAuthority
import Synchronization

/// Parts of files in memory that were read last, so that readers of small pieces do not send a
/// request for each.
///
/// Readers of a part that is being loaded share the request. A reader that is cancelled leaves; the
/// request goes on for the others.
///
/// Invariants:
/// 1. The parts take at most ``limit`` bytes, and there are at most ``parts`` of them.
/// 2. A part that was loaded before ``drop(_:)`` is not in memory after it.
///
/// Mutable state: one `State`, guarded by its mutex.
package final class BlobWindows: Sendable {
    /// The size of a part in bytes, except for the last one of a file: 1 MiB.
    static let windowBytes = 1 << 20
    /// The maximum number of bytes of all parts: 32 MiB.
    package static let limit = 32 << 20
    /// The maximum number of parts.
    static let parts = 1_024

    /// A part of a file.
    struct Key: Hashable {
        var id: BlobID
        /// The number of the part, from 0.
        var number: Int
    }

    typealias Outcome = Result<[UInt8]?, S3Failure>

    fileprivate struct Fetch {
        var number: Int
        var waiting: [Int: CheckedContinuation<Outcome, Never>] = [:]
    }

    fileprivate struct State {
        var windows: [Key: (bytes: [UInt8], usedAt: Int)] = [:]
        var fetches: [Key: Fetch] = [:]
        var bytes = 0
        /// The readers that were cancelled before they waited.
        var cancelled: Set<Int> = []
        /// The number of the last use, fetch or reader.
        var last = 0

        mutating func next() -> Int {
            last += 1
            return last
        }
    }

    private let state = Mutex(State())

    /// Returns a part of a file, from memory if possible.
    ///
    /// - Parameters:
    ///   - key: The part.
    ///   - load: Loads the part; called if no other reader loads it.
    /// - Returns: The bytes, `nil` for a missing file, or the failure of loading.
    func window(_ key: Key, _ load: @escaping @Sendable () async -> Outcome) async -> Outcome {
        let reader = state.withLock { $0.next() }
        defer { state.withLock { _ = $0.cancelled.remove(reader) } }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { caller in
                enter(key, reader, caller, load)
            }
        } onCancel: {
            let caller = state.withLock { state in
                state.cancelled.insert(reader)
                return state.fetches[key]?.waiting.removeValue(forKey: reader)
            }
            caller?.resume(returning: .failure(.cancelled))
        }
    }

    /// Removes all parts of a file.
    func drop(_ id: BlobID) {
        let left = state.withLock { state -> [Fetch] in
            for key in state.windows.keys where key.id == id { state.remove(key) }
            let keys = state.fetches.keys.filter { $0.id == id }
            return keys.compactMap { state.fetches.removeValue(forKey: $0) }
        }
        // Their readers began before the file was removed.
        for caller in left.flatMap(\.waiting.values) { caller.resume(returning: .success(nil)) }
    }

    private func enter(
        _ key: Key,
        _ reader: Int,
        _ caller: CheckedContinuation<Outcome, Never>,
        _ load: @escaping @Sendable () async -> Outcome
    ) {
        enum Step {
            case answer(Outcome)
            case load(Int)
            case wait
        }
        let step = state.withLock { state -> Step in
            if state.cancelled.contains(reader) { return .answer(.failure(.cancelled)) }
            if let window = state.windows[key] {
                let use = state.next()
                state.windows[key]?.usedAt = use
                return .answer(.success(window.bytes))
            }
            if state.fetches[key] != nil {
                state.fetches[key]?.waiting[reader] = caller
                return .wait
            }
            let number = state.next()
            state.fetches[key] = Fetch(number: number, waiting: [reader: caller])
            return .load(number)
        }
        switch step {
        case .answer(let outcome): caller.resume(returning: outcome)
        case .wait: break
        case .load(let number):
            // Unstructured, because other readers may wait for it.
            Task { finish(key, number, await load()) }
        }
    }

    private func finish(_ key: Key, _ number: Int, _ outcome: Outcome) {
        let waiting = state.withLock { state -> [CheckedContinuation<Outcome, Never>] in
            guard let fetch = state.fetches[key], fetch.number == number else { return [] }
            state.fetches[key] = nil
            if case .success(let bytes?) = outcome { state.add(bytes, key) }
            return Array(fetch.waiting.values)
        }
        for caller in waiting { caller.resume(returning: outcome) }
    }
}

extension BlobWindows.State {
    fileprivate mutating func add(_ bytes: [UInt8], _ key: BlobWindows.Key) {
        while self.bytes + bytes.count > BlobWindows.limit || windows.count >= BlobWindows.parts {
            guard let oldest = windows.min(by: { $0.value.usedAt < $1.value.usedAt }) else { break }
            remove(oldest.key)
        }
        windows[key] = (bytes, next())
        self.bytes += bytes.count
    }

    fileprivate mutating func remove(_ key: BlobWindows.Key) {
        guard let window = windows.removeValue(forKey: key) else { return }
        bytes -= window.bytes.count
    }
}
