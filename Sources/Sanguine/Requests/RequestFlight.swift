import Foundation
import Synchronization

/// What the requests of one fetch, with all its attempts, have in common.
final class RequestFlight: Sendable {
    private struct State {
        var host: String
        var isSettled = false
    }

    /// The number of the entry's fetch, see ``EntryState``; 0 if it is not the fetch of an entry.
    let number: UInt64
    /// How much they matter.
    let priority: RequestPriority

    // The only mutable state, guarded by the mutex.
    private let state: Mutex<State>

    /// - Parameters:
    ///   - number: The number of the entry's fetch, or 0.
    ///   - priority: How much the requests matter.
    ///   - host: Which host is asked, as far as is known before the first request.
    init(number: UInt64, priority: RequestPriority, host: String) {
        self.number = number
        self.priority = priority
        state = Mutex(State(host: host))
    }

    /// The host that was asked last.
    var host: String { state.withLock { $0.host } }

    /// Whether the fetch has had its attempts, as a part of another one.
    var isSettled: Bool { state.withLock { $0.isSettled } }

    /// A request goes to the host.
    func asks(_ host: String) { state.withLock { $0.host = host } }

    /// Whatever the fetch ends with is not tried again.
    func settle() { state.withLock { $0.isSettled = true } }
}

extension URL {
    /// Scheme, host and port as one text: what shares lanes and retries.
    var hostKey: String { origin?.joined(separator: " ") ?? "" }
}
