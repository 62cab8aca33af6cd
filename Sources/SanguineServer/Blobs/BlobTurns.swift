import SanguineAuthority
import Synchronization

/// Lets one task at a time work on a file.
///
/// Mutable state: `waiting`, guarded by its mutex. It has one entry for each file being worked on.
/// The number of waiting tasks is bounded by the callers.
final class BlobTurns: Sendable {
    private let waiting = Mutex<[BlobID: [CheckedContinuation<Void, Never>]]>([:])

    /// Performs the body after all earlier ones for the file have ended.
    func perform<Value: Sendable>(
        _ id: BlobID,
        _ body: () async -> Value
    ) async -> Value {
        await begin(id)
        defer { end(id) }
        return await body()
    }

    private func begin(_ id: BlobID) async {
        await withCheckedContinuation { task in
            let isFree = waiting.withLock { waiting in
                guard waiting[id] != nil else {
                    waiting[id] = []
                    return true
                }
                waiting[id, default: []].append(task)
                return false
            }
            if isFree { task.resume() }
        }
    }

    private func end(_ id: BlobID) {
        let next = waiting.withLock { waiting -> CheckedContinuation<Void, Never>? in
            guard waiting[id]?.isEmpty == false else {
                waiting[id] = nil
                return nil
            }
            return waiting[id]?.removeFirst()
        }
        next?.resume()
    }
}
