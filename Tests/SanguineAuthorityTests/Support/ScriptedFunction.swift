import SanguineModel
import SanguineTesting

@testable import SanguineAuthority

/// A function whose runs do what a test says, and are counted.
struct ScriptedFunction: MeteredFunction {
    typealias Body =
        @Sendable (_ input: JSONValue, CallContext) async throws(Problem) -> PreparedCall.Outcome

    /// What runs have come to, in the order in which they began.
    struct Runs: Sendable {
        var began: [JSONValue] = []
        var accounts: [Identifier?] = []
        var settings: [[String: JSONValue]] = []
    }

    var name = "f"
    var rules = FunctionRules()
    /// Whether it leaves for an upstream.
    var isSent = true
    /// What a call holds; the price's amount if `nil`.
    var hold: Int64?
    var life = Duration.seconds(60)
    var unavailable: Problem?
    /// Why it cannot run for an account.
    var unavailableFor: @Sendable (Identifier) -> Problem? = { _ in nil }
    /// What is charged for what was made.
    var cost: (@Sendable (CallProgress) -> Int64)?
    let runs = WatchedState(Runs())
    var body: Body

    var inputs: [String: String] { [:] }

    init(
        _ name: String = "f",
        _ rules: FunctionRules = FunctionRules(),
        body: @escaping Body = { _, _ in .init(output: "made", charge: .max) }
    ) {
        self.name = name
        self.rules = rules
        self.body = body
    }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        guard input.value["bad"] == nil else { throw Problem(.invalidContent, "Leave it out.") }
        let most = hold ?? rules.price.amount
        var call = PreparedCall(
            input: input.value,
            hold: most,
            guess: most,
            life: life,
            isSent: isSent,
            unavailable: unavailable,
            chargeWhenCut: { min(cost?($0) ?? most, most) },
            run: { [runs, body] context async throws(Problem) in
                runs.withLock { runs in
                    runs.began.append(input.value)
                    runs.accounts.append(context.account)
                    runs.settings.append(context.settings)
                }
                return try await body(input.value, context)
            }
        )
        call.unavailableFor = unavailableFor
        return call
    }

    /// How often it ran.
    var runCount: Int { runs.value.began.count }

    func waitForRuns(_ count: Int) async throws {
        try await runs.wait(for: "\(count) runs", found: { "\($0.began.count) began" }) {
            $0.began.count >= count
        }
    }
}

extension WatchedState<Bool> {
    /// Waits until it is open; a run that is cut short fails.
    func pass() async throws(Problem) {
        do {
            try await wait(for: "the gate") { $0 }
        } catch {
            throw Problem(.upstreamFailed, "Cut: \(error)")
        }
    }

    func open() { withLock { $0 = true } }
}

/// How many steps a run may go.
extension WatchedState<Int> {
    /// Waits until so many are allowed; a run that is cut short fails.
    func pass(_ count: Int) async throws(Problem) {
        do {
            try await wait(for: "step \(count)") { $0 >= count }
        } catch {
            throw Problem(.upstreamFailed, "Cut: \(error)")
        }
    }

    func allow(_ count: Int) { withLock { $0 = count } }
}
