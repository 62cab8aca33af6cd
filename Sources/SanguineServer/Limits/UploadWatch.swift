import NIOCore
import Synchronization

/// Ends requests whose bodies take too long to arrive.
///
/// A connection that sends a byte now and then is never idle, so its time must be limited as a
/// whole. Time is counted in turns of the housekeeping: entering and leaving cost a dictionary's
/// insertion and removal, and no timer.
///
/// Invariants:
///
/// 1. A body is read for at least ``turns`` and at most ``turns`` + 1 turns, or for that many times
///    as it was promised.
/// 2. What has left is not closed: its connection serves others by then.
final class UploadWatch: Sendable {
    /// Names one body that is being read.
    struct Ticket: Hashable {
        fileprivate let number: UInt64
    }

    private struct Upload {
        let channel: any Channel
        let since: Int
        /// For how many turns it may be read.
        let turns: Int
    }

    // Guarded by the mutex. Bounded by the limit of connections, each of which reads one body.
    private struct State {
        var turn = 0
        var next: UInt64 = 0
        var uploads: [UInt64: Upload] = [:]
    }

    private let state = Mutex(State())
    private let turns: Int

    /// Creates a watch that allows a body so many whole turns.
    init(turns: Int) { self.turns = turns }

    /// A body begins to be read from the channel, for so many times as long as others.
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

    /// The body was read, or given up.
    func leave(_ ticket: Ticket) {
        state.withLock { _ = $0.uploads.removeValue(forKey: ticket.number) }
    }

    /// Ends a turn, and closes the connections whose bodies are overdue.
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
