import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Which calls run and which wait: bounded, fair, and never idle while a call could run.
@Suite("Call queue", .bounded)
struct CallQueueTests {
    private typealias Ticket = CallQueueState.Ticket

    private func ticket(
        _ number: UInt64,
        _ account: UInt64 = 1,
        _ function: String = "f",
        run: UInt64? = nil,
        from address: String? = nil,
        running: Int? = nil,
        runningPerAccount: Int? = nil
    ) -> Ticket {
        Ticket(
            number: number,
            run: run ?? number,
            account: .numbered(account),
            address: address,
            function: function,
            running: running,
            runningPerAccount: runningPerAccount
        )
    }

    /// The queue as a reference type, because `#expect` cannot call mutating methods of a value.
    private final class Line {
        private var state: CallQueueState

        init(_ state: CallQueueState) { self.state = state }

        var running: Int { state.running }
        var waitingCount: Int { state.waitingCount }

        func enter(_ ticket: Ticket) -> Bool { state.enter(ticket) }
        func tryStart(_ ticket: Ticket) -> Bool { state.tryStart(ticket) }
        func leave(_ ticket: Ticket) -> [Ticket] { state.leave(ticket) }
        func giveUp(_ ticket: Ticket) -> Bool { state.giveUp(ticket) }
        func giveUp(run: UInt64) { state.giveUp(run: run) }
    }

    private func queue(_ limit: Int, account: Int? = nil, address: Int? = nil) -> Line {
        Line(
            CallQueueState(
                limit: limit,
                accountShare: account ?? limit,
                addressShare: address ?? limit
            )
        )
    }

    @Test func `a call waits while all turns are taken, and runs when one is free`() {
        let queue = queue(2)
        #expect(queue.enter(ticket(1)) && queue.enter(ticket(2)))
        #expect(!queue.enter(ticket(3)) && !queue.tryStart(ticket(4)))
        #expect((queue.running, queue.waitingCount) == (2, 1))
        #expect(queue.leave(ticket(1)) == [ticket(3)])
        #expect((queue.running, queue.waitingCount) == (2, 0))
    }

    @Test func `an account gets its share, and other accounts run at the same time`() {
        let queue = queue(4, account: 1)
        #expect(queue.enter(ticket(1, 1)))
        #expect(!queue.enter(ticket(2, 1)))
        #expect(queue.enter(ticket(3, 2)))
        #expect(queue.leave(ticket(3, 2)) == [])
        #expect(queue.leave(ticket(1, 1)) == [ticket(2, 1)])
    }

    @Test func `an address gets its share, regardless of its number of accounts`() {
        let queue = queue(4, address: 2)
        #expect(queue.enter(ticket(1, 1, from: "a")) && queue.enter(ticket(2, 2, from: "a")))
        #expect(!queue.enter(ticket(3, 3, from: "a")))
        #expect(queue.enter(ticket(4, 4, from: "b")) && queue.enter(ticket(5, 5)))
        #expect(queue.leave(ticket(5, 5)) == [])
        #expect(queue.leave(ticket(1, 1, from: "a")) == [ticket(3, 3, from: "a")])
    }

    @Test func `a function has its limit, in total and per account`() {
        let queue = queue(9)
        let limited = (1...4).map { ticket($0, $0, "slow", running: 2) }
        #expect(limited.map { queue.enter($0) } == [true, true, false, false])
        #expect(queue.enter(ticket(5, 3, "fast")))
        #expect(queue.leave(limited[0]) == [limited[2]])

        let own = (10...12).map { ticket($0, 9, "g", runningPerAccount: 1) }
        #expect(own.map { queue.enter($0) } == [true, false, false])
        #expect(queue.enter(ticket(13, 8, "g", runningPerAccount: 1)))
        #expect(queue.leave(own[0]) == [own[1]])
    }

    @Test func `a call whose function is at its limit is overtaken by a later one`() {
        let queue = queue(3)
        #expect(queue.enter(ticket(1, 1, "slow", running: 1)))
        #expect(queue.enter(ticket(2, 2)) && queue.enter(ticket(3, 2)))
        #expect(!queue.enter(ticket(4, 1, "slow", running: 1)))
        #expect(!queue.enter(ticket(5, 1)))
        #expect(queue.leave(ticket(2, 2)) == [ticket(5, 1)])
        #expect(queue.leave(ticket(1, 1, "slow", running: 1)) == [ticket(4, 1, "slow", running: 1)])
    }

    @Test func `the first call of an account waits for at most one call of each other account`() {
        let queue = queue(1)
        #expect(queue.enter(ticket(0, 1)))
        for number in 1...1_000 as ClosedRange<UInt64> { _ = queue.enter(ticket(number, 1)) }
        for number in 1...10 as ClosedRange<UInt64> {
            _ = queue.enter(ticket(2_000 + number, 1 + number))
        }
        var running = ticket(0, 1)
        var order: [UInt64] = []
        for _ in 0..<11 {
            guard let next = queue.leave(running).first else { break }
            order.append(next.number)
            running = next
        }
        #expect(order.prefix(1) == [1])
        #expect(Set(order.dropFirst()) == Set(2_001...2_010))
    }

    @Test func `a call that has given up is skipped`() {
        let queue = queue(1)
        #expect(queue.enter(ticket(1)))
        #expect(!queue.enter(ticket(2)) && !queue.enter(ticket(3)))
        #expect(queue.giveUp(ticket(2)) && !queue.giveUp(ticket(2)) && !queue.giveUp(ticket(1)))
        #expect(queue.leave(ticket(1)) == [ticket(3)])
        #expect(queue.leave(ticket(3)) == [] && queue.running == 0)
    }

    // MARK: - Runs that several calls want

    @Test func `a run starts with the first ticket that may run, and the others leave the queue`() {
        let queue = queue(4, account: 1)
        #expect(queue.enter(ticket(1, 1)) && queue.enter(ticket(2, 2)))
        #expect(!queue.enter(ticket(3, 1, run: 50)) && !queue.enter(ticket(4, 2, run: 50)))
        #expect(!queue.enter(ticket(5, 1)) && queue.waitingCount == 2)
        #expect(queue.leave(ticket(2, 2)) == [ticket(4, 2, run: 50)])
        #expect((queue.running, queue.waitingCount) == (2, 1))
        // It has the turn of the second account, and none of the first.
        #expect(queue.leave(ticket(1, 1)) == [ticket(5, 1)])
        #expect(!queue.enter(ticket(6, 2)))
        #expect(queue.leave(ticket(4, 2, run: 50)) == [ticket(6, 2)])
    }

    @Test func `a ticket of an account with a free turn starts the run at once`() {
        let queue = queue(4, account: 1)
        #expect(queue.enter(ticket(1, 1)))
        #expect(!queue.enter(ticket(2, 1, run: 50)) && !queue.enter(ticket(3, 1, run: 50)))
        #expect(queue.enter(ticket(4, 2, run: 50)))
        #expect((queue.running, queue.waitingCount) == (2, 0))
        #expect(queue.leave(ticket(1, 1)) == [])
    }

    @Test func `a run keeps waiting for the remaining tickets when one gives up`() {
        let queue = queue(1)
        #expect(queue.enter(ticket(1)))
        #expect(!queue.enter(ticket(2, 2, run: 50)) && !queue.enter(ticket(3, 3, run: 50)))
        #expect(queue.giveUp(ticket(2, 2, run: 50)) && queue.waitingCount == 1)
        #expect(queue.leave(ticket(1)) == [ticket(3, 3, run: 50)])
        #expect(!queue.enter(ticket(4, 2, run: 60)) && !queue.enter(ticket(5, 3, run: 60)))
        queue.giveUp(run: 60)
        #expect(queue.waitingCount == 0 && queue.leave(ticket(3, 3, run: 50)) == [])
    }

    /// The same rules in their simplest form.
    private struct Naive {
        var limit: Int
        var accountShare: Int
        var addressShare: Int
        var running: [Ticket] = []
        /// The waiting tickets, in the order of their arrival.
        var waiting: [Ticket] = []

        /// A run counts as one call, and no other ticket waits for it.
        mutating func start(_ ticket: Ticket) {
            waiting.removeAll { $0.run == ticket.run }
            running.append(ticket)
        }

        func mayRun(_ ticket: Ticket) -> Bool {
            func count(_ isSame: (Ticket) -> Bool) -> Int { running.count { isSame($0) } }
            return running.count < limit
                && count { $0.account == ticket.account } < accountShare
                && (ticket.address == nil
                    || count { $0.address == ticket.address } < addressShare)
                && count { $0.function == ticket.function } < ticket.running ?? .max
                && count {
                    $0.function == ticket.function && $0.account == ticket.account
                } < ticket.runningPerAccount ?? .max
        }
    }

    /// Returns a ticket of a random account, for a new run or for one that is already waiting.
    private func ticket(
        _ number: UInt64,
        in naive: Naive,
        using random: inout SplitMix64
    ) -> Ticket {
        let shared = Bool.random(using: &random) ? naive.waiting.randomElement(using: &random) : nil
        let function = shared?.function ?? ["f", "g", "h"].randomElement(using: &random) ?? ""
        return ticket(
            number,
            .random(in: 1...5, using: &random),
            function,
            run: shared?.run,
            from: ["a", "b", nil].randomElement(using: &random) ?? nil,
            running: function == "g" ? 2 : nil,
            runningPerAccount: function == "h" ? 1 : nil
        )
    }

    @Test(arguments: 1...40)
    func `random calls keep the limits and the order, and wait only for a limit`(
        seed: UInt64
    ) {
        var random = SplitMix64(seed: seed)
        var naive = Naive(
            limit: .random(in: 1...6, using: &random),
            accountShare: .random(in: 1...4, using: &random),
            addressShare: .random(in: 1...4, using: &random)
        )
        let queue = queue(naive.limit, account: naive.accountShare, address: naive.addressShare)
        var number: UInt64 = 0
        var faults: [String] = []
        for step in 0..<2_000 {
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                number += 1
                let new = ticket(number, in: naive, using: &random)
                let mayRun = naive.mayRun(new)
                if queue.enter(new) != mayRun { faults.append("\(step): enter") }
                if mayRun { naive.start(new) } else { naive.waiting.append(new) }
            case 2, 3:
                guard let old = naive.running.randomElement(using: &random) else { continue }
                naive.running.removeAll { $0 == old }
                for next in queue.leave(old) {
                    if !naive.mayRun(next) { faults.append("\(step): over a limit") }
                    let earlier = naive.waiting.first {
                        $0.account == next.account && naive.mayRun($0)
                    }
                    if earlier != next { faults.append("\(step): out of order") }
                    naive.start(next)
                }
            case 4 where step % 5 == 0:
                guard let run = naive.waiting.randomElement(using: &random)?.run else { continue }
                queue.giveUp(run: run)
                naive.waiting.removeAll { $0.run == run }
            default:
                guard let old = naive.waiting.randomElement(using: &random) else { continue }
                if !queue.giveUp(old) { faults.append("\(step): it did not wait") }
                naive.waiting.removeAll { $0 == old }
            }
            if naive.waiting.contains(where: { naive.mayRun($0) }) {
                faults.append("\(step): idle")
            }
            let runs = Set(naive.waiting.map(\.run))
            if (queue.running, queue.waitingCount) != (naive.running.count, runs.count) {
                faults.append("\(step): counts")
            }
            if !runs.isDisjoint(with: naive.running.map(\.run)) {
                faults.append("\(step): a running run still waits")
            }
        }
        #expect(faults.prefix(5) == [])
    }

    // MARK: - The shell

    private let limits = FunctionLimits()

    private func caller(_ account: UInt64) -> CallQueue.Caller {
        CallQueue.Caller(account: .numbered(account))
    }

    @Test func `a turn is returned once, when its last reference is gone`() {
        let queue = CallQueue(limit: 1, accountShare: 1)
        let first = queue.turn(of: "f", limits)
        var second: CallQueue.Turn? = queue.turn(of: "f", limits)
        #expect(first.tryTake(caller(1)) && second?.tryTake(caller(2)) == false)
        #expect(first.holder == caller(1) && second?.holder == nil)
        first.release()
        first.release()
        #expect(queue.counts == (0, 0))
        #expect(second?.tryTake(caller(2)) == true && queue.counts == (1, 0))
        second = nil
        #expect(queue.counts == (0, 0))
    }

    @Test func `a call that is cancelled while it waits leaves the queue`() async throws {
        let queue = CallQueue(limit: 1, accountShare: 1)
        let turn = queue.turn(of: "f", limits)
        #expect(turn.tryTake(caller(1)))
        let waiting = Task { await queue.enter(caller(2), "f", limits) }
        try await eventually("a call waits") { queue.counts.waiting == 1 }
        waiting.cancel()
        #expect(try await waiting.finished() == nil)
        #expect(queue.counts == (1, 0))
        turn.release()
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            let turn = queue.turn(of: "f", limits)
            return await turn.wait()
        }
        #expect(try await late.finished() == nil)
        #expect(queue.counts == (0, 0))
    }

    @Test func `the first caller to get a shared turn holds it, and the other turns are returned`()
        async throws
    {
        let queue = CallQueue(limit: 4, accountShare: 1)
        let (busy, other) = (queue.turn(of: "f", limits), queue.turn(of: "f", limits))
        #expect(busy.tryTake(caller(1)) && other.tryTake(caller(2)))
        let shared = queue.turn(of: "f", limits)
        #expect(shared.join(caller(1)) != nil && shared.join(caller(2)) != nil)
        let waiting = Task { await shared.wait() }
        other.release()
        #expect(try await waiting.finished() == caller(2))
        #expect(shared.holder == caller(2) && queue.counts == (2, 0))
        // A later caller gets no ticket.
        #expect(shared.join(caller(3)) == nil && queue.counts == (2, 0))
        busy.release()
        #expect(queue.counts == (1, 0))
        shared.release()
        #expect(queue.counts == (0, 0))
    }

    @Test func `a turn whose wait was stopped takes no permit that becomes free later`()
        async throws
    {
        let queue = CallQueue(limit: 1, accountShare: 1)
        let (busy, late) = (queue.turn(of: "f", limits), queue.turn(of: "f", limits))
        #expect(busy.tryTake(caller(1)) && late.join(caller(2)) != nil)
        let waiting = Task { await late.wait() }
        late.stopWaiting()
        #expect(try await waiting.finished() == nil)
        #expect(late.join(caller(3)) == nil && queue.counts == (1, 0))
        busy.release()
        #expect(late.holder == nil && queue.counts == (0, 0))
    }
}
