import SanguineAuthority
import SanguineModel

/// A function that is implemented by a test.
struct InMemoryFunction: MeteredFunction {
    /// The work of one call.
    typealias Work =
        @Sendable (CallContext) async throws -> InMemoryAuthority.FunctionOutcome

    let name: String
    let rules: FunctionRules
    /// The largest charge of a call.
    let hold: Int64
    /// Parses the input, and returns the work.
    let read: @Sendable (JSONValue) throws(Problem) -> Work

    var inputs: [String: String] { [:] }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let work = try read(input.value)
        return PreparedCall(
            input: input.value,
            hold: hold,
            guess: hold,
            life: .zero,
            isSent: true,
            chargeWhenCut: { [hold] in $0.parts > 0 ? hold : 0 }
        ) { context async throws(Problem) in
            do {
                let outcome = try await work(context)
                return PreparedCall.Outcome(
                    output: outcome.output,
                    charge: outcome.charge,
                    finishReason: outcome.finishReason
                )
            } catch let problem as Problem {
                throw problem
            } catch {
                throw .upstreamFailed
            }
        }
    }
}
