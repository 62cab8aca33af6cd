import NIOCore
import Synchronization

/// Closes connections whose request bodies take too long to arrive.
///
/// A connection that sends a byte from time to time is never idle, so its total time must be
/// limited. Time is counted in turns of ``Housekeeping``. A body therefore costs one dictionary
/// insertion and removal, but no timer.
///
/// Invariants:
///
/// 1. A body may take at least ``turns`` and at most ``turns`` + 1 turns, times the factor of
///    ``enter(_:times:)``.
/// 2. After ``stopWatching(_:)`` the connection is not closed, because it may serve other requests.
final class UploadTimeouts: Sendable {
    /// Identifies a body that is being read.
    struct Ticket: Hashable {
        fileprivate let number: UInt64
    }

    private struct Upload {
        let channel: any Channel
        let since: Int
        /// The number of turns that it may take.
        let turns: Int
    }

    // Guarded by the mutex. Bounded by the number of connections, each of which reads one body.
    private struct State {
        var turn = 0
        var next: UInt64 = 0
        var uploads: [UInt64: Upload] = [:]
    }

    private let state = Mutex(State())
    private let turns: Int

    /// Creates a watch that permits a body the given number of whole turns.
    init(turns: Int) { self.turns = turns }

    /// Starts to watch a body on the channel, which may take `factor` times as long as usual.
    func enter(_ channel: any Channel, times factor: Int = 1) -> Ticket {
        state.withLock { state in
            state.next += 1
            state.uploads[state.next] = Upload(
                channel: channel,
                since: state.turn,
                turns: turns * factor
            )
            return Ticket(number: state.next)
        }
    }

    /// Stops watching a body that was read or abandoned.
    func stopWatching(_ ticket: Ticket) {
        state.withLock { _ = $0.uploads.removeValue(forKey: ticket.number) }
    }

    /// Ends a turn and closes the connections of overdue bodies.
    func endTurn() {
        let overdue = state.withLock { state in
            state.turn += 1
            let overdue = state.uploads.filter { state.turn - $0.value.since > $0.value.turns }
            for number in overdue.keys { state.uploads[number] = nil }
            return overdue.values.map(\.channel)
        }
        for channel in overdue { channel.close(promise: nil) }
    }
}
