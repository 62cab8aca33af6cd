import SanguineModel
import SanguineTesting

@testable import SanguineAuthority

/// A function whose runs are defined by a test and counted.
struct ScriptedFunction: MeteredFunction {
    typealias Body =
        @Sendable (_ input: JSONValue, CallContext) async throws(Problem) -> PreparedCall.Outcome

    /// The runs, in the order in which they began.
    struct Runs: Sendable {
        var began: [JSONValue] = []
        var accounts: [Identifier?] = []
        var settings: [[String: JSONValue]] = []
        /// The contexts that the prepared calls received, as texts.
        var contexts: [[String]] = []
    }

    var name = "f"
    var rules = FunctionRules()
    /// Whether it is sent upstream.
    var isSent = true
    /// The hold of a call; the price's amount if `nil`.
    var hold: Int64?
    var life = Duration.seconds(60)
    var unavailable: Problem?
    /// Returns the problem if it cannot run for an account.
    var unavailableFor: @Sendable (Identifier) -> Problem? = { _ in nil }
    /// Returns the charge for the progress.
    var cost: (@Sendable (RunProgress) -> Int64)?
    /// The records that its calls change.
    var records: PreparedCall.Records?
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
        runs.withLock { $0.contexts.append(input.history.map(\.text)) }
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
        call.records = records
        return call
    }

    /// The number of runs.
    var runCount: Int { runs.value.began.count }

    func waitForRuns(_ count: Int) async throws {
        try await runs.wait(for: "\(count) runs", found: { "\($0.began.count) began" }) {
            $0.began.count >= count
        }
    }
}

extension WatchedState<Bool> {
    /// Waits until it is open; throws if the run is cut short.
    func pass() async throws(Problem) {
        do {
            try await wait(for: "the gate") { $0 }
        } catch {
            throw Problem(.upstreamFailed, "Cut: \(error)")
        }
    }

    func open() { withLock { $0 = true } }
}

/// The number of steps that a run may take.
extension WatchedState<Int> {
    /// Waits until this many steps are allowed; throws if the run is cut short.
    func pass(_ count: Int) async throws(Problem) {
        do {
            try await wait(for: "step \(count)") { $0 >= count }
        } catch {
            throw Problem(.upstreamFailed, "Cut: \(error)")
        }
    }

    func allow(_ count: Int) { withLock { $0 = count } }
}
