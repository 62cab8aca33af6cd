package import SanguineModel
import Synchronization

/// Lets runs begin, or wait for their turn; the shell around ``CallQueueState``.
///
/// Mutable state: the state and the runs that wait or are in progress, guarded by the mutex.
/// Waiting runs are resumed without holding it.
package final class CallQueue: Sendable {
    /// The account and the address that a call comes from.
    package struct Caller: Hashable, Sendable {
        var account: Identifier
        /// The address of the request; `nil` if there was no request.
        var address: String?

        package init(account: Identifier, address: String? = nil) {
            self.account = account
            self.address = address
        }
    }

    /// A call's position in the queue for the turn of its run.
    typealias Ticket = CallQueueState.Ticket

    /// The turn of one run, for which any number of calls may be queued.
    ///
    /// The run takes the first turn that any of its calls gets, and the other calls leave the
    /// queue. So a run does not wait for an account that has used up its share if a call of another
    /// account also wants it.
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

        /// The caller that the run counts for; `nil` until the run has its turn.
        var holder: Caller? { queue.guarded.withLock { $0.runs[run]?.holder } }

        /// Takes a turn for the caller, if one is available now.
        ///
        /// - Returns: Whether a turn was available.
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

        /// Adds a call to the queue.
        ///
        /// - Returns: Its ticket, which can be given back; `nil` if the run already has its turn,
        ///   or gets it now.
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

        /// Removes a call from the queue; the run continues to wait for the turn of another call.
        func giveBack(_ ticket: Ticket) {
            queue.guarded.withLock { _ = $0.state.giveUp(ticket) }
        }

        /// Waits for the turn of any of the calls; only one task may wait at a time.
        ///
        /// - Returns: The caller that the run counts for; `nil` if the wait was ended, or the task
        ///   was cancelled before the run got its turn.
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

        /// Ends the wait; a turn that was already granted is kept.
        func stopWaiting() {
            let waiter = queue.guarded.withLock { guarded -> Waiter? in
                guard case .waiting(let waiter) = guarded.runs[run] else { return nil }
                guarded.runs[run] = nil
                guarded.state.giveUp(run: run)
                return waiter
            }
            waiter?.resume(returning: nil)
        }

        /// Releases the turn, or ends the wait; further calls have no effect.
        package func release() { queue.release(run) }
    }

    fileprivate typealias Waiter = CheckedContinuation<Caller?, Never>

    /// The state of a run.
    fileprivate enum Run {
        /// It does not have its turn yet.
        case waiting(Waiter?)
        /// It has its turn, with the given ticket.
        case started(Ticket)

        var holder: Caller? {
            guard case .started(let ticket) = self else { return nil }
            return Caller(account: ticket.account, address: ticket.address)
        }
    }

    fileprivate struct Guarded {
        var state: CallQueueState
        /// The runs that wait or are in progress; they are removed when they do neither.
        var runs: [UInt64: Run] = [:]
        var lastNumber: UInt64 = 0
    }

    private let guarded: Mutex<Guarded>

    /// Creates a queue that allows a number of concurrent runs.
    ///
    /// An address may use half of them.
    package init(limit: Int, accountShare: Int) {
        let state = CallQueueState(
            limit: limit,
            accountShare: accountShare,
            addressShare: limit - limit / 2
        )
        guarded = Mutex(Guarded(state: state))
    }

    /// The numbers of runs in progress and of waiting runs.
    package var counts: (running: Int, waiting: Int) {
        guarded.withLock { ($0.state.running, $0.state.waitingCount) }
    }

    /// Returns the turn of a run for which no call is queued yet.
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
    /// - Returns: The turn, which the run has until it is released; `nil` if the task was cancelled
    ///   before the run got it.
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

    /// Starts the run of a ticket.
    ///
    /// - Returns: The task that waits for the start, and the caller that the run counts for.
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
