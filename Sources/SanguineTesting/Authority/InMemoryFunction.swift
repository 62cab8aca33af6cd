import SanguineAuthority
import SanguineModel

/// A function whose work a test has written.
struct InMemoryFunction: MeteredFunction {
    /// The work of one call.
    typealias Work = @Sendable () async throws -> InMemoryAuthority.FunctionOutcome

    let name: String
    /// The most that a call can cost.
    let hold: Int64
    /// Reads the input, and returns the work.
    let read: @Sendable (JSONValue) throws(Problem) -> Work

    var rules: FunctionRules { FunctionRules(price: .fixed(hold)) }

    var inputs: [String: String] { [:] }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let work = try read(input.value)
        return PreparedCall(
            input: input.value,
            hold: hold,
            guess: hold,
            life: .zero,
            isSent: true,
            chargeWhenCut: { [hold] _ in hold }
        ) { _ async throws(Problem) in
            do {
                let outcome = try await work()
                return PreparedCall.Outcome(output: outcome.output, charge: outcome.charge)
            } catch let problem as Problem {
                throw problem
            } catch {
                throw .upstreamFailed
            }
        }
    }
}
