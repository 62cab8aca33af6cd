import Foundation
import Synchronization

/// The state that all requests of one fetch share, over all its attempts.
final class FetchContext: Sendable {
    private struct State {
        var host: String
        var isSettled = false
    }

    /// The number of the entry's fetch, see ``EntryState``; 0 if it is not the fetch of an entry.
    let number: UInt64
    /// The priority of its requests.
    let priority: RequestPriority

    // The only mutable state, guarded by the mutex.
    private let state: Mutex<State>

    /// - Parameters:
    ///   - number: The number of the entry's fetch, or 0.
    ///   - priority: The priority of the requests.
    ///   - host: The host of the first request, as far as it is known.
    init(number: UInt64, priority: RequestPriority, host: String) {
        self.number = number
        self.priority = priority
        state = Mutex(State(host: host))
    }

    /// The host of the last request.
    var host: String { state.withLock { $0.host } }

    /// Whether the fetch has used up its attempts, as a part of another one.
    var isSettled: Bool { state.withLock { $0.isSettled } }

    /// Records the host of a request.
    func asks(_ host: String) { state.withLock { $0.host = host } }

    /// Prevents retries of the fetch, however it ends.
    func settle() { state.withLock { $0.isSettled = true } }
}

extension URL {
    /// Scheme, host and port in one string, which identifies the slots and retries of a host.
    var hostKey: String { origin?.joined(separator: " ") ?? "" }
}
