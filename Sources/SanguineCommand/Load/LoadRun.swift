import DequeModule
import SanguineModel

/// A run of `sanguine load` without a network: which requests to send when, and how they ended.
///
/// Invariants:
/// 1. Every request of the schedule ends once: with a response, a failure or a timeout.
/// 2. A request is started at its time, whether or not others have succeeded. It waits only for
///    its own ingredients; see ``LoadUsers``. Its latency begins at the intended time in any case.
/// 3. At most ``LoadLimits/openRequests`` requests are open.
struct LoadRun: Sendable {
    /// A request to send now.
    struct Send: Sendable {
        /// Identifies the request among all of the run.
        let number: Int
        /// Whether the connection stays open after the response's head.
        let isLive: Bool
        let message: LoadUsers.Message
    }

    /// The end of a request that was sent.
    enum Answer: Sendable {
        case response(status: Int, body: [UInt8])
        /// There is no response, for this reason.
        case failure(String)
    }

    /// A request that has not ended.
    private struct Open: Sendable {
        let user: Int
        let step: Int?
        let intended: Duration
        var isSent = false

        /// The index of its row in the tally.
        var row: Int { step.map { $0 + 1 } ?? 0 }
    }

    let plan: LoadPlan
    private(set) var tally: LoadTally
    /// Whether the run was ended before its time.
    private(set) var isInterrupted = false
    /// The time at which the run ended, or `nil` while it is running.
    private(set) var end: Duration?
    private var schedule: LoadSchedule
    private var users: LoadUsers
    private var open: [Int: Open] = [:]
    /// The requests of each user that wait for an ingredient, in the order of their times.
    private var waiting: [Int: [Int]] = [:]
    private var deadlines: Deque<(time: Duration, number: Int)> = []
    private var nextNumber = 0

    init(_ plan: LoadPlan, run: String, start: Timestamp) {
        self.plan = plan
        tally = LoadTally(plan)
        schedule = LoadSchedule(plan)
        users = LoadUsers(plan, run: run, start: start)
    }

    /// The time at which the next request is intended, or `nil` if there is none.
    var nextTime: Duration? { end == nil ? schedule.nextTime : nil }

    /// The number of requests that have not ended.
    var openRequests: Int { open.count }

    /// Returns whether nothing is left to do.
    func isComplete(at now: Duration) -> Bool {
        now >= plan.duration && schedule.nextTime == nil && open.isEmpty
    }

    /// Starts the requests whose time has come, at most ``LoadLimits/startsAtOnce``.
    mutating func start(at now: Duration) -> [Send] {
        var sends: [Send] = []
        var left = LoadLimits.startsAtOnce
        while left > 0, let time = nextTime, time <= now, let item = schedule.next() {
            left -= 1
            let new = Open(user: item.user, step: item.step, intended: item.time)
            tally.begin(new.row, intended: item.time, now: now)
            if item.step == nil { tally.arrive() }
            guard open.count < LoadLimits.openRequests else {
                tally.overflow(new.row, intended: item.time)
                continue
            }
            sends += add(new, deadline: item.time + plan.timeout, at: now)
        }
        return sends
    }

    /// Records the answer to a request, unless the request has already ended.
    ///
    /// - Returns: The requests that waited for it.
    mutating func answer(_ number: Int, _ answer: Answer, at now: Duration) -> [Send] {
        guard let ended = open.removeValue(forKey: number) else { return [] }
        let result: LoadTally.End
        switch answer {
        case .response(let status, let body):
            let failure = users.end(ended.user, step: ended.step, status: status, body: body)
            result = failure.map { .failure($0) } ?? .success
            if failure == nil, users.kind(of: ended.step) == .live { tally.liveBegan() }
        case .failure(let reason):
            users.fail(ended.user, step: ended.step)
            result = .failure(reason)
        }
        tally.end(ended.row, intended: ended.intended, now: now, result)
        if ended.step == nil, users.needsSession(ended.user) {
            return failWaiting(of: ended.user, at: now)
        }
        return release(ended.user)
    }

    /// Ends the requests whose timeout has passed.
    ///
    /// - Returns: The numbers of those that were sent, whose connections cannot be used again, and
    ///   the requests that waited for them.
    mutating func expire(at now: Duration) -> (cancelled: [Int], sends: [Send]) {
        var cancelled: [Int] = []
        var sends: [Send] = []
        while let first = deadlines.first, first.time <= now {
            deadlines.removeFirst()
            guard let ended = open.removeValue(forKey: first.number) else { continue }
            tally.end(ended.row, intended: ended.intended, now: now, .unanswered("timed out"))
            guard ended.isSent else {
                waiting[ended.user]?.removeAll { $0 == first.number }
                continue
            }
            cancelled.append(first.number)
            users.fail(ended.user, step: ended.step)
            if ended.step != nil || !users.needsSession(ended.user) {
                sends += release(ended.user)
            } else {
                sends += failWaiting(of: ended.user, at: now)
            }
        }
        return (cancelled, sends)
    }

    /// Returns whether a request has not ended.
    func isOpen(_ number: Int) -> Bool { open[number] != nil }

    /// Records bytes of a live connection.
    mutating func liveReceived(_ bytes: Int) { tally.liveReceived(bytes) }

    /// Records that the server ended a live connection.
    mutating func liveEnded(at now: Duration) {
        guard end == nil, let step = plan.steps.firstIndex(where: { $0.known == .live }) else {
            return
        }
        tally.liveEnded(step + 1, now: now)
    }

    /// Ends the run.
    ///
    /// Open requests are unanswered. They count with the time that they have waited.
    mutating func finish(at now: Duration, isInterrupted: Bool) {
        guard end == nil else { return }
        for (_, ended) in open.sorted(by: { $0.key < $1.key }) {
            tally.end(
                ended.row,
                intended: ended.intended,
                now: now,
                .unanswered("unanswered at the end")
            )
        }
        open = [:]
        waiting = [:]
        deadlines = []
        self.isInterrupted = isInterrupted
        end = now
    }

    // MARK: - Requests

    private mutating func add(_ new: Open, deadline: Duration, at now: Duration) -> [Send] {
        let number = nextNumber
        nextNumber += 1
        open[number] = new
        deadlines.append((deadline, number))
        if new.step != nil, users.needsSession(new.user) {
            // The sign-in failed. An app tries again when the user does something.
            waiting[new.user, default: []].append(number)
            let signIn = Open(user: new.user, step: nil, intended: new.intended)
            tally.begin(0, intended: new.intended, now: now)
            return add(signIn, deadline: deadline, at: now)
        }
        guard users.isReady(new.user, users.kind(of: new.step)) else {
            waiting[new.user, default: []].append(number)
            return []
        }
        return [send(number, new)]
    }

    private mutating func send(_ number: Int, _ request: Open) -> Send {
        open[number]?.isSent = true
        return Send(
            number: number,
            isLive: users.kind(of: request.step) == .live,
            message: users.send(request.user, step: request.step)
        )
    }

    /// Sends the requests of a user that have all that they need.
    private mutating func release(_ user: Int) -> [Send] {
        guard let numbers = waiting.removeValue(forKey: user) else { return [] }
        var sends: [Send] = []
        var kept: [Int] = []
        for number in numbers {
            guard let request = open[number] else { continue }
            if users.isReady(user, users.kind(of: request.step)) {
                sends.append(send(number, request))
            } else {
                kept.append(number)
            }
        }
        if !kept.isEmpty { waiting[user] = kept }
        return sends
    }

    /// Fails what waited for a sign-in that failed.
    private mutating func failWaiting(of user: Int, at now: Duration) -> [Send] {
        for number in waiting.removeValue(forKey: user) ?? [] {
            guard let ended = open.removeValue(forKey: number) else { continue }
            tally.end(ended.row, intended: ended.intended, now: now, .failure("no session"))
        }
        return []
    }
}
