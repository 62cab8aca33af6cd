package import SanguineModel
import Synchronization

/// Lets calls run, or wait for their turn: the shell around ``CallQueueState``.
///
/// Mutable state: `state` and who waits, guarded by the mutex. Callers are resumed outside of it.
package final class CallQueue: Sendable {
    /// Whose call it is.
    package struct Caller: Hashable, Sendable {
        var account: Identifier
        /// Where the request came from, if it came from anywhere.
        var address: String?

        package init(account: Identifier, address: String? = nil) {
            self.account = account
            self.address = address
        }
    }

    /// The right to run; it is given back once.
    package final class Slot: Sendable {
        private let queue: CallQueue
        private let ticket: CallQueueState.Ticket
        private let isLeft = Atomic(false)

        fileprivate init(_ queue: CallQueue, _ ticket: CallQueueState.Ticket) {
            self.queue = queue
            self.ticket = ticket
        }

        deinit { leave() }

        /// Gives it back; a second time does nothing.
        package func leave() {
            if !isLeft.exchange(true, ordering: .relaxed) { queue.leave(ticket) }
        }
    }

    fileprivate struct Guarded {
        var state: CallQueueState
        var waiting: [UInt64: CheckedContinuation<Bool, Never>] = [:]
        var lastTicket: UInt64 = 0
    }

    private let guarded: Mutex<Guarded>

    /// Creates a queue in which so many calls run at a time.
    ///
    /// An address gets half of them.
    package init(limit: Int, accountShare: Int) {
        let state = CallQueueState(
            limit: limit,
            accountShare: accountShare,
            addressShare: limit - limit / 2
        )
        guarded = Mutex(Guarded(state: state))
    }

    /// How many calls run, and how many wait.
    package var counts: (running: Int, waiting: Int) {
        guarded.withLock { ($0.state.running, $0.waiting.count) }
    }

    /// Takes a slot, if there is one now.
    func tryEnter(_ caller: Caller, _ function: String, _ limits: FunctionLimits) -> Slot? {
        let ticket = guarded.withLock { guarded -> CallQueueState.Ticket? in
            let ticket = guarded.ticket(caller, function, limits)
            return guarded.state.tryStart(ticket) ? ticket : nil
        }
        return ticket.map { Slot(self, $0) }
    }

    /// Waits for a slot.
    ///
    /// - Returns: `nil` if the task was cancelled before there was one.
    package func enter(
        _ caller: Caller,
        _ function: String,
        _ limits: FunctionLimits
    ) async -> Slot? {
        let ticket = guarded.withLock { $0.ticket(caller, function, limits) }
        let mayRun = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer = guarded.withLock { guarded -> Bool? in
                    if Task.isCancelled { return false }
                    if guarded.state.enter(ticket) { return true }
                    guarded.waiting[ticket.number] = continuation
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            let waiting = guarded.withLock { guarded -> CheckedContinuation<Bool, Never>? in
                guard guarded.state.giveUp(ticket) else { return nil }
                return guarded.waiting.removeValue(forKey: ticket.number)
            }
            waiting?.resume(returning: false)
        }
        return mayRun ? Slot(self, ticket) : nil
    }

    private func leave(_ ticket: CallQueueState.Ticket) {
        let started = guarded.withLock { guarded in
            guarded.state.leave(ticket).compactMap {
                guarded.waiting.removeValue(forKey: $0.number)
            }
        }
        for caller in started { caller.resume(returning: true) }
    }
}

extension CallQueue.Guarded {
    fileprivate mutating func ticket(
        _ caller: CallQueue.Caller,
        _ function: String,
        _ limits: FunctionLimits
    ) -> CallQueueState.Ticket {
        lastTicket += 1
        return CallQueueState.Ticket(
            number: lastTicket,
            account: caller.account,
            address: caller.address,
            function: function,
            running: limits.running,
            runningPerAccount: limits.runningPerAccount
        )
    }
}
