import SanguineAuthority
import SanguineModel

/// A function that returns its text, for testing.
struct EchoFunction: MeteredFunction {
    /// The delay that a call may ask for, in milliseconds.
    static let delays = 0...60_000
    private static let members = [
        InputMember("text"), InputMember("delayMs", .integer, isOptional: true),
    ]

    let name: String
    let rules: FunctionRules
    let delay: any Clock<Duration>

    var inputs: [String: String] { Self.members.listed }

    func prepare(_ input: FunctionInput) throws(Problem) -> PreparedCall {
        let members = try Self.members.read(input.value)
        let text = members["text"]?.string ?? ""
        let wait = members["delayMs"]?.integer ?? 0
        guard let milliseconds = Int(exactly: wait), Self.delays.contains(milliseconds) else {
            throw Problem(
                .invalidContent,
                "Set 'input.delayMs' to 0 to \(Self.delays.upperBound) milliseconds."
            )
        }
        let price = rules.price.amount
        return PreparedCall(
            input: .object(members),
            hold: price,
            guess: price,
            life: .milliseconds(2 * Self.delays.upperBound),
            isSent: false,
            chargeWhenCut: { _ in price }
        ) { [clock = self.delay] context in
            if milliseconds > 0 { try? await clock.sleep(for: .milliseconds(milliseconds)) }
            await context.write(text, text.utf8.count)
            return PreparedCall.Outcome(output: .string(text), charge: price)
        }
    }
}
