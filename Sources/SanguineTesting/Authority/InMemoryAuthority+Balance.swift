import SanguineAuthority
public import SanguineModel
import Synchronization

// Changes of balances by support and other devices, and the functions that are paid from them.
extension InMemoryAuthority {
    /// Returns the available and the held amount of an account.
    public func balance(of account: Identifier? = nil) -> Balance {
        must { try memory.balance(of: account ?? user) }
    }

    /// Grants tokens to an account, as support does.
    public func grant(_ amount: Int64, reason: String = "grant", to account: Identifier? = nil) {
        must { try memory.grant(amount, reason, to: account ?? user) }
    }

    /// Spends tokens, as another device of the account does.
    ///
    /// - Throws: `Problem` if the balance is insufficient.
    public func spend(
        _ amount: Int64,
        reason: String = "spend",
        of account: Identifier? = nil
    ) throws {
        try memory.spend(amount, reason, of: account ?? user)
    }

    /// Sets the available amount of an account by granting or spending the difference.
    ///
    /// An account starts with the settings' grant.
    public func setBalance(_ available: Int64, of account: Identifier? = nil) {
        let difference = available - balance(of: account).available
        if difference > 0 { grant(difference, to: account) }
        if difference < 0 { must { try spend(-difference, of: account) } }
    }

    /// Sets the plan of an account.
    public func setPlan(_ plan: Account.Plan, of account: Identifier? = nil) {
        must { try memory.setPlan(plan, of: account ?? user) }
    }

    /// Replaces the switches of all apps, as an administrator does.
    ///
    /// Names and values are not checked.
    public func setSwitches(_ switches: Switches) {
        must { try memory.setSwitches(switches) }
    }

    // MARK: - Functions

    /// The result of a function.
    public struct FunctionOutcome: Sendable {
        /// The `output` of the response.
        public var output: JSONValue
        /// The charge, at most the held amount.
        public var charge: Int64
        /// The language model's reason for stopping: `stop`, or `length` for a truncated answer.
        ///
        /// Default: none.
        public var finishReason: String?

        /// Creates an outcome.
        public init(output: JSONValue, charge: Int64, finishReason: String? = nil) {
            self.output = output
            self.charge = charge
            self.finishReason = finishReason
        }
    }

    /// Serves a function, and replaces one with the same name.
    ///
    /// ```swift
    /// authority.serve(Ask.self) { "You asked: \($0.question)" }
    /// authority.serve(Ask.self) { _ in throw Problem(.upstreamTimeout, "Ask again.") }
    /// ```
    ///
    /// A call is processed as on a server: its hold is placed, the body runs, and the charge is
    /// settled even if the caller has disconnected.
    ///
    /// - Parameters:
    ///   - function: The function.
    ///   - price: The price of a call. Default: its expected cost.
    ///   - hold: The amount that is held while it runs, at least the price. Default: the price.
    ///   - body: Computes the output. A `Problem` that it throws is the response of the call, any
    ///     other error becomes `upstream_failed`; nothing is charged then.
    public func serve<Call: FunctionCall>(
        _ function: Call.Type,
        price: Int64 = Call.expectedCost,
        hold: Int64? = nil,
        _ body: @escaping @Sendable (Call.Input) async throws -> Call.Output
    ) {
        serve(function, price: price, hold: hold) { input, _ in try await body(input) }
    }

    /// Serves a function that streams its answer, and replaces one with the same name.
    ///
    /// ```swift
    /// authority.serve(Ask.self) { input, write in
    ///     for word in ["Because", " it", " is."] { await write(word) }
    ///     return "Because it is."
    /// }
    /// ```
    ///
    /// The function's rules apply as on a server: whether it streams, its use of a quota, and the
    /// lifetime of cached answers. If it writes no part, its whole text is the only part. A call
    /// that is cancelled after its first part is charged the held amount.
    ///
    /// - Parameters:
    ///   - function: The function.
    ///   - price: The price of a call. Default: its expected cost.
    ///   - hold: The amount that is held while it runs, at least the price. Default: the price.
    ///   - body: Computes the output, and writes its parts. A `Problem` that it throws is the
    ///     response of the call, any other error becomes `upstream_failed`.
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
                throw Problem(.invalidContent, "Set 'input' to a valid input of '\(Call.name)'.")
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

    /// Serves a function whose calls determine their own charge.
    ///
    /// - Parameters:
    ///   - name: The function's name in the path.
    ///   - hold: The largest charge of a call, which is held while it runs.
    ///   - body: Computes output and charge from the input. A `Problem` that it throws is the
    ///     response of the call, any other error becomes `upstream_failed`; nothing is charged
    ///     then.
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
