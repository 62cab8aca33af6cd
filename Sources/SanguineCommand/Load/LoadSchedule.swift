import HeapModule
import SanguineTesting

/// The intended requests of a run, in the order of their times.
///
/// The same plan always gives the same requests. They are computed one after the other, so that the
/// memory grows with the users and not with the requests.
struct LoadSchedule: Sendable {
    /// One intended request.
    struct Item: Hashable, Comparable, Sendable {
        /// The time after the start of the run.
        let time: Duration
        /// The number of the user, from 0.
        let user: Int
        /// The index of the step, or `nil` for the sign-in.
        let step: Int?

        static func < (lhs: Item, rhs: Item) -> Bool {
            (lhs.time, lhs.user) < (rhs.time, rhs.user)
        }
    }

    private let plan: LoadPlan
    // One item of each user that has arrived and is not finished.
    private var waiting = Heap<Item>()
    private var scripts: [Script] = []

    /// Creates the schedule of a plan that has no ``LoadPlan/problem``.
    init(_ plan: LoadPlan) { self.plan = plan }

    /// The time of the next request, or `nil` after the last one.
    var nextTime: Duration? {
        let first = waiting.min?.time
        guard scripts.count < plan.users else { return first }
        let arrival = plan.arrival(of: scripts.count)
        return min(first ?? arrival, arrival)
    }

    /// Removes and returns the next request.
    mutating func next() -> Item? {
        guard let time = nextTime else { return nil }
        let user = scripts.count
        if user < plan.users, plan.arrival(of: user) == time {
            scripts.append(Script(user: user, seed: plan.seed))
            advance(user, after: time)
            return Item(time: time, user: user, step: nil)
        }
        guard let item = waiting.popMin() else { return nil }
        advance(item.user, after: time)
        return item
    }

    private mutating func advance(_ user: Int, after time: Duration) {
        guard let (pause, step) = scripts[user].next(plan) else { return }
        let next = Item(time: time + pause, user: user, step: step)
        if next.time <= plan.duration { waiting.insert(next) }
    }

    /// The random decisions of one user.
    private struct Script: Sendable {
        private var random: SplitMix64
        private var isFirstRound = true
        private var isEmptyRound = true
        private var step = -1
        private var left = 0

        init(user: Int, seed: UInt64) {
            // Neighboring seeds would give related numbers without the generator in between.
            var seeds = SplitMix64(seed: seed &+ UInt64(user) &* 0xD134_2543_DE82_EF95)
            random = SplitMix64(seed: seeds.next())
        }

        /// Returns the pause and the step after it, or `nil` if the user has finished.
        mutating func next(_ plan: LoadPlan) -> (pause: Duration, step: Int)? {
            var pause = Duration.zero
            while pause <= plan.duration {
                if left > 0 {
                    left -= 1
                    isEmptyRound = false
                    return (pause + draw(plan.think), step)
                }
                step += 1
                guard step < plan.steps.count else {
                    guard plan.hasRounds else { return nil }
                    // So that time passes, even if no step has its turn for many rounds.
                    if isEmptyRound { pause += draw(plan.think) }
                    (step, isFirstRound, isEmptyRound) = (-1, false, true)
                    continue
                }
                if isFirstRound || !plan.steps[step].isOnce {
                    left = times(plan.steps[step].weight)
                }
            }
            return nil
        }

        private mutating func draw(_ range: ClosedRange<Duration>) -> Duration {
            let width = range.upperBound - range.lowerBound
            // Drawn even without a width, so that the steps do not depend on it.
            let share = Double.random(in: 0...1, using: &random)
            return range.lowerBound + .nanoseconds(Int64(share * (width / .nanoseconds(1))))
        }

        private mutating func times(_ weight: Double) -> Int {
            let whole = weight.rounded(.down)
            let isMore = Double.random(in: 0..<1, using: &random) < weight - whole
            return Int(whole) + (isMore ? 1 : 0)
        }
    }
}
