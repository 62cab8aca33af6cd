import SanguineAuthority
public import SanguineModel
import Synchronization

// What support and other devices do to a balance, and the functions that are paid from it.
extension InMemoryAuthority {
    /// What an account may spend, and what is held.
    public func balance(of account: Identifier? = nil) -> Balance {
        must { try memory.balance(of: account ?? user) }
    }

    /// Gives an account tokens, as support does.
    public func grant(_ amount: Int64, reason: String = "grant", to account: Identifier? = nil) {
        must { try memory.grant(amount, reason, to: account ?? user) }
    }

    /// Spends tokens, as another device of the account does.
    ///
    /// - Throws: `Problem` if there are not so many.
    public func spend(
        _ amount: Int64,
        reason: String = "spend",
        of account: Identifier? = nil
    ) throws {
        try memory.spend(amount, reason, of: account ?? user)
    }

    /// Grants or spends what an account has too little or too much of; at first it has the
    /// settings' grant.
    public func setBalance(_ available: Int64, of account: Identifier? = nil) {
        let difference = available - balance(of: account).available
        if difference > 0 { grant(difference, to: account) }
        if difference < 0 { must { try spend(-difference, of: account) } }
    }

    /// Sets what an account pays for.
    public func setPlan(_ plan: Account.Plan, of account: Identifier? = nil) {
        must { try memory.setPlan(plan, of: account ?? user) }
    }

    // MARK: - Functions

    /// What a function made of its input.
    public struct FunctionOutcome: Sendable {
        /// The `output` of the answer.
        public var output: JSONValue
        /// What is charged; at most what was held.
        public var charge: Int64
        /// Why a language model would have stopped: `stop`, or `length` for a part of an answer.
        ///
        /// Default: it does not say.
        public var finishReason: String?

        /// Creates an outcome.
        public init(output: JSONValue, charge: Int64, finishReason: String? = nil) {
            self.output = output
            self.charge = charge
            self.finishReason = finishReason
        }
    }

    /// Serves a function, in place of one of the same name.
    ///
    /// ```swift
    /// authority.serve(Ask.self) { "You asked: \($0.question)" }
    /// authority.serve(Ask.self) { _ in throw Problem(.upstreamTimeout, "Ask again.") }
    /// ```
    ///
    /// A call goes as on a server: its hold is placed, the body runs, and the charge is settled
    /// whether the caller still waits or not.
    ///
    /// - Parameters:
    ///   - function: The function.
    ///   - price: What a call costs. Default: what it is expected to cost.
    ///   - hold: What is held while it runs, at least the price. Default: the price.
    ///   - body: Makes the output. A `Problem` that it throws is the call's answer, any other
    ///     error `upstream_failed`; nothing is charged then.
    public func serve<Call: FunctionCall>(
        _ function: Call.Type,
        price: Int64 = Call.expectedCost,
        hold: Int64? = nil,
        _ body: @escaping @Sendable (Call.Input) async throws -> Call.Output
    ) {
        serve(function, price: price, hold: hold) { input, _ in try await body(input) }
    }

    /// Serves a function that makes its answer in parts, in place of one of the same name.
    ///
    /// ```swift
    /// authority.serve(Ask.self) { input, write in
    ///     for word in ["Because", " it", " is."] { await write(word) }
    ///     return "Because it is."
    /// }
    /// ```
    ///
    /// The function's rules are heeded as on a server: whether it streams, what it takes of a
    /// quota, how long its answers are kept. If it writes no part, its text is one. A call that is
    /// cancelled after its first part is charged with what was held.
    ///
    /// - Parameters:
    ///   - function: The function.
    ///   - price: What a call costs. Default: what it is expected to cost.
    ///   - hold: What is held while it runs, at least the price. Default: the price.
    ///   - body: Makes the output, and writes its parts. A `Problem` that it throws is the call's
    ///     answer, any other error `upstream_failed`.
    public func serve<Call: FunctionCall>(
        _ function: Call.Type,
        price: Int64 = Call.expectedCost,
        hold: Int64? = nil,
        _ body:
            @escaping @Sendable (
                _ input: Call.Input, _ write: @escaping @Sendable (String) async -> Void
            ) async throws -> Call.Output
    ) {
        var rules = Call.rules
        rules.price.kind = .fixed
        rules.price.amount = price
        let most = max(price, hold ?? price)
        let served = InMemoryFunction(
            name: Call.name,
            rules: rules,
            hold: most
        ) { input throws(Problem) in
            guard let input = try? StoredForm.arguments.decode(Call.Input.self, from: input)
            else {
                throw Problem(.invalidContent, "Set 'input' to what '\(Call.name)' takes.")
            }
            return { context in
                let hasParts = Mutex(false)
                let output = try await body(input) { text in
                    hasParts.withLock { $0 = $0 || !text.isEmpty }
                    await context.write(text, text.utf8.count)
                }
                let json = try JSONValue(encoding: output)
                if !hasParts.withLock({ $0 }), let text = json.string {
                    await context.write(text, text.utf8.count)
                }
                return FunctionOutcome(output: json, charge: price)
            }
        }
        state.withLock { $0.serve(served) }
    }

    /// Serves a function whose calls cost what they turn out to cost.
    ///
    /// - Parameters:
    ///   - name: Its name in the path.
    ///   - hold: The most that a call can cost, which is held while it runs.
    ///   - body: Makes output and charge of the input. A `Problem` that it throws is the call's
    ///     answer, any other error `upstream_failed`; nothing is charged then.
    public func serve(
        _ name: String,
        hold: Int64,
        _ body: @escaping @Sendable (_ input: JSONValue) async throws -> FunctionOutcome
    ) {
        let served = InMemoryFunction(
            name: name,
            rules: FunctionRules(price: .fixed(hold)),
            hold: hold
        ) { input in
            { _ in try await body(input) }
        }
        state.withLock { $0.serve(served) }
    }
}

extension InMemoryAuthority.State {
    fileprivate mutating func serve(_ function: InMemoryFunction) {
        functions.removeAll { $0.name == function.name }
        functions.append(function)
    }
}
