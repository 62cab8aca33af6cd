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

    var description: FunctionDescription {
        FunctionDescription(
            name: name,
            price: .fixed(hold),
            cache: "none",
            stream: false,
            inputs: [:]
        )
    }

    func prepare(_ input: JSONValue) throws(Problem) -> PreparedCall {
        let work = try read(input)
        return PreparedCall(hold: hold, guess: hold, life: .zero, isSent: true) {
            () async throws(Problem) in
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
