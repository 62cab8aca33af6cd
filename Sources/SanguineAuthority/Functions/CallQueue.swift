package import SanguineModel
import Synchronization

/// Lets runs begin, or wait for their turn: the shell around ``CallQueueState``.
///
/// Mutable state: the state and the runs that wait or go on, guarded by the mutex. Those that wait
/// are resumed outside of it.
package final class CallQueue: Sendable {
    /// The account and the address that a call comes from.
    package struct Caller: Hashable, Sendable {
        var account: Identifier
        /// Where the request came from, if it came from anywhere.
        var address: String?

        package init(account: Identifier, address: String? = nil) {
            self.account = account
            self.address = address
        }
    }

    /// A call's place in the line for the turn of its run.
    typealias Ticket = CallQueueState.Ticket

    /// The turn of one run, for which any number of calls stand in line.
    ///
    /// The run takes the first turn that any of them gets, and the others leave the line. So a run
    /// waits for no account that has its share, as long as another one wants it that does not.
    package final class Turn: Sendable {
        private let queue: CallQueue
        private let run: UInt64
        private let function: String
        private let limits: FunctionLimits

        fileprivate init(
            _ queue: CallQueue,
            _ run: UInt64,
            _ function: String,
            _ limits: FunctionLimits
        ) {
            self.queue = queue
            self.run = run
            self.function = function
            self.limits = limits
        }

        deinit { release() }

        /// The caller that the run counts for; `nil` as long as it has no turn.
        var holder: Caller? { queue.guarded.withLock { $0.runs[run]?.holder } }

        /// Takes a turn of the caller's, if there is one now.
        ///
        /// - Returns: Whether there was one.
        func tryTake(_ caller: Caller) -> Bool {
            queue.guarded.withLock { guarded in
                let ticket = guarded.ticket(caller, run, function, limits)
                guard case .waiting(nil) = guarded.runs[run], guarded.state.tryStart(ticket) else {
                    return false
                }
                guarded.runs[run] = .started(ticket)
                return true
            }
        }

        /// Puts a call in line.
        ///
        /// - Returns: Its ticket, which it can give back; `nil` if the run has had its turn, or
        ///   takes this one now.
        func join(_ caller: Caller) -> Ticket? {
            let (ticket, waiter) = queue.guarded.withLock { guarded -> (Ticket?, Waiter?) in
                guard case .waiting(let waiter) = guarded.runs[run] else { return (nil, nil) }
                let ticket = guarded.ticket(caller, run, function, limits)
                guard guarded.state.enter(ticket) else { return (ticket, nil) }
                guarded.runs[run] = .started(ticket)
                return (nil, waiter)
            }
            waiter?.resume(returning: caller)
            return ticket
        }

        /// Takes a call out of the line; the run waits on for the turn of another one.
        func giveBack(_ ticket: Ticket) {
            queue.guarded.withLock { _ = $0.state.giveUp(ticket) }
        }

        /// Waits for the turn of any call; one task may wait at a time.
        ///
        /// - Returns: The caller that the run counts for; `nil` if it waits no longer, or the task
        ///   was cancelled before it had its turn.
        func wait() async -> Caller? {
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let answer = queue.guarded.withLock { guarded -> Caller?? in
                        guard case .waiting = guarded.runs[run] else {
                            return .some(guarded.runs[run]?.holder)
                        }
                        guarded.runs[run] = .waiting(continuation)
                        return nil
                    }
                    if let answer { continuation.resume(returning: answer) }
                }
            } onCancel: {
                stopWaiting()
            }
        }

        /// Waits no longer; a turn that has come is kept.
        func stopWaiting() {
            let waiter = queue.guarded.withLock { guarded -> Waiter? in
                guard case .waiting(let waiter) = guarded.runs[run] else { return nil }
                guarded.runs[run] = nil
                guarded.state.giveUp(run: run)
                return waiter
            }
            waiter?.resume(returning: nil)
        }

        /// Gives the turn back, or waits no longer; a second time does nothing.
        package func release() { queue.release(run) }
    }

    fileprivate typealias Waiter = CheckedContinuation<Caller?, Never>

    /// Where a run stands.
    fileprivate enum Run {
        /// It has no turn yet.
        case waiting(Waiter?)
        /// It has one, by that ticket.
        case started(Ticket)

        var holder: Caller? {
            guard case .started(let ticket) = self else { return nil }
            return Caller(account: ticket.account, address: ticket.address)
        }
    }

    fileprivate struct Guarded {
        var state: CallQueueState
        /// The runs that wait or go on; they leave once they do neither.
        var runs: [UInt64: Run] = [:]
        var lastNumber: UInt64 = 0
    }

    private let guarded: Mutex<Guarded>

    /// Creates a queue that allows a number of concurrent runs.
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

    /// How many runs go on, and how many wait.
    package var counts: (running: Int, waiting: Int) {
        guarded.withLock { ($0.state.running, $0.state.waitingCount) }
    }

    /// Returns the turn of a run for which no call stands in line yet.
    func turn(of function: String, _ limits: FunctionLimits) -> Turn {
        let run = guarded.withLock { guarded in
            guarded.lastNumber += 1
            guarded.runs[guarded.lastNumber] = .waiting(nil)
            return guarded.lastNumber
        }
        return Turn(self, run, function, limits)
    }

    /// Waits for the turn of a run that only one call wants.
    ///
    /// - Returns: The turn, which the run has until it is left or forgotten; `nil` if the task was
    ///   cancelled before there was one.
    package func enter(
        _ caller: Caller,
        _ function: String,
        _ limits: FunctionLimits
    ) async -> Turn? {
        let turn = turn(of: function, limits)
        _ = turn.join(caller)
        return await turn.wait() == nil ? nil : turn
    }

    private func release(_ run: UInt64) {
        let waiters = guarded.withLock { guarded -> [(Waiter?, Caller?)] in
            switch guarded.runs.removeValue(forKey: run) {
            case nil: return []
            case .waiting(let waiter):
                guarded.state.giveUp(run: run)
                return [(waiter, nil)]
            case .started(let ticket):
                return guarded.state.leave(ticket).map { guarded.start($0) }
            }
        }
        for (waiter, caller) in waiters { waiter?.resume(returning: caller) }
    }
}

extension CallQueue.Guarded {
    fileprivate mutating func ticket(
        _ caller: CallQueue.Caller,
        _ run: UInt64,
        _ function: String,
        _ limits: FunctionLimits
    ) -> CallQueue.Ticket {
        lastNumber += 1
        return CallQueue.Ticket(
            number: lastNumber,
            run: run,
            account: caller.account,
            address: caller.address,
            function: function,
            running: limits.running,
            runningPerAccount: limits.runningPerAccount
        )
    }

    /// The run of a ticket goes on.
    ///
    /// - Returns: The task that waits for that, and the caller that the run counts for.
    fileprivate mutating func start(
        _ ticket: CallQueue.Ticket
    ) -> (CallQueue.Waiter?, CallQueue.Caller?) {
        let run = CallQueue.Run.started(ticket)
        guard case .waiting(let waiter) = runs.updateValue(run, forKey: ticket.run) else {
            return (nil, nil)
        }
        return (waiter, run.holder)
    }
}
