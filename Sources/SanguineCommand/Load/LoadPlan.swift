/// The arguments of a run of `sanguine load`.
///
/// Users arrive at a rate that rises linearly from 0 during the ramp. Each signs in as a guest and
/// then does the steps in their order, in rounds, with a pause before each. All intended times
/// follow from these arguments and never from a response.
struct LoadPlan: Hashable, Sendable {
    static let defaultSteps = [
        LoadStep("feed"), LoadStep("live", isOnce: true), LoadStep("page", weight: 2),
        LoadStep("like", weight: 0.5), LoadStep("post", weight: 0.1),
        LoadStep("ask", isOnce: true),
    ]

    /// The number of users.
    var users = 100
    /// The arrivals per second after the ramp.
    var rate = 20.0
    /// The time in which the rate rises to its value.
    var ramp: Duration = .seconds(5)
    /// The time from the first arrival to the last intended request.
    var duration: Duration = .seconds(30)
    /// The bounds of the pause before each step, which is uniformly distributed.
    var think: ClosedRange<Duration> = .seconds(1) ... .seconds(5)
    /// The seed of pauses and of steps with a chance.
    var seed: UInt64 = 1
    /// What a user does in each round.
    var steps = Self.defaultSteps
    /// The declared requests by name.
    var requests: [String: LoadRequest] = [:]
    /// The time from the intended start after which a request has failed.
    var timeout: Duration = .seconds(30)
    /// The list that `feed` and `page` load and `post` adds to.
    var collection = "posts"
    /// The collection that `like` creates records in.
    var likes = "notes"
    /// The function that `ask` calls.
    var function = "echo"
    /// The records of a page.
    var pageSize = 20

    /// Returns the time at which a user arrives, the first being user 0 at 0.
    ///
    /// It follows only from the user's number, so that no rounding error grows and exactly
    /// ``users`` arrive: the inverse of `rate · t² / (2 · ramp)` during the ramp, and linear after
    /// it.
    func arrival(of user: Int) -> Duration {
        let ramp = ramp / .seconds(1)
        let during = rate * ramp / 2
        let number = Double(user)
        let seconds =
            number <= during && during > 0
            ? (2 * number * ramp / rate).squareRoot() : ramp + (number - during) / rate
        return .nanoseconds(Int64((seconds * 1e9).rounded()))
    }

    /// Whether users do something after their first round.
    var hasRounds: Bool { steps.contains { !$0.isOnce } }

    /// The number of users that hold a live connection, if none fails.
    var liveUsers: Int { steps.contains { $0.known == .live } ? users : 0 }

    /// The first reason why the plan cannot be run, or `nil` if it can.
    var problem: String? { rangeProblem ?? stepProblem }

    private var rangeProblem: String? {
        guard LoadLimits.users.contains(users) else {
            return "Set '--users' to 1 to \(LoadLimits.users.upperBound)."
        }
        guard LoadLimits.rate.contains(rate) else {
            return "Set '--rate' to 0.01 to 10000 arrivals per second."
        }
        guard LoadLimits.duration.contains(duration) else {
            return """
                Set '--duration' to 1s to 10m. Access tokens expire after 15 minutes, and live \
                connections end with them.
                """
        }
        guard ramp >= .zero, ramp <= duration else {
            return "Set '--ramp' to at most the duration."
        }
        guard LoadLimits.think.contains(think.lowerBound),
            LoadLimits.think.contains(think.upperBound)
        else { return "Set '--think' to 10ms to 10m, such as 2s or 1s..5s." }
        guard LoadLimits.timeout.contains(timeout) else {
            return "Set '--timeout' to 100ms to 2m."
        }
        guard (1...100).contains(pageSize) else {
            return "Set '--page-size' to 1 to 100, the maximum of the protocol."
        }
        let last = arrival(of: users - 1)
        guard last <= duration else {
            return """
                The last of \(users) users would arrive after \(last.inSeconds) s, and the run \
                ends before. Raise '--rate' or '--duration', or lower '--users' or '--ramp'.
                """
        }
        return nil
    }

    private var stepProblem: String? {
        guard LoadLimits.steps.contains(steps.count) else {
            return "Give 1 to \(LoadLimits.steps.upperBound) steps."
        }
        guard Set(steps.map(\.name)).count == steps.count else {
            return "Name each step once, and set its weight, such as 'page:2'."
        }
        for step in steps where step.known == nil && requests[step.name] == nil {
            let names = LoadStep.Known.allCases.map(\.rawValue) + requests.keys.sorted()
            return """
                There is no step '\(step.name)'. Use one of \(names.joined(separator: ", ")), or \
                declare it under 'requests' in the scenario.
                """
        }
        if let live = steps.first(where: { $0.known == .live }), !live.isOnce || live.weight != 1 {
            return "Write 'live:1:once': a user holds one live connection until the end."
        }
        let used = Set(steps.map(\.name))
        for (name, request) in requests.sorted(by: { $0.key < $1.key }) {
            if !LoadStep.isName(name) || LoadStep.Known(rawValue: name) != nil || name == "guest" {
                return "Rename the request '\(name)': letters, digits and hyphens, not a step."
            }
            if let problem = request.problem { return "Change the request '\(name)': \(problem)" }
            if !used.contains(name) { return "Add a step '\(name)', or remove its request." }
        }
        for name in [collection, likes, function] where !Self.isPathPart(name) {
            return "'\(name)' is not the name of a collection or function."
        }
        return nil
    }

    private static func isPathPart(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (97...122).contains(byte | 0x20)
                    || [UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ".")].contains(byte)
            }
    }
}

extension Duration {
    /// The duration in seconds with up to three decimals, such as `0.25`.
    var inSeconds: String {
        let rounded = ((self / .seconds(1)) * 1_000).rounded() / 1_000
        return rounded == rounded.rounded() ? "\(Int(rounded))" : "\(rounded)"
    }

    /// The duration in milliseconds.
    var inMilliseconds: Double { self / .milliseconds(1) }
}
