package import SanguineModel

/// A function that an authority runs and charges for.
package protocol MeteredFunction: Sendable {
    /// Its name in the path.
    var name: String { get }
    /// What is said of it to those who may call it.
    var description: FunctionDescription { get }

    /// Reads the input of a call.
    ///
    /// - Throws: `invalid_content`, naming the member and what it takes.
    func prepare(_ input: JSONValue) throws(Problem) -> PreparedCall
}

/// A call whose input was read and found valid.
package struct PreparedCall: Sendable {
    /// What a call made, and what it cost.
    package struct Outcome: Sendable {
        /// The `output` of the answer.
        package var output: JSONValue
        /// What is charged; at most what was held.
        package var charge: Int64

        /// Creates the outcome.
        package init(output: JSONValue, charge: Int64) {
            self.output = output
            self.charge = charge
        }
    }

    /// What is held: the most that the call can cost.
    package var hold: Int64
    /// What it will probably cost, as long as nothing was learned.
    package var guess: Int64
    /// How long its hold lasts at least: longer than the call can, or its answer would be lost.
    package var life: Duration
    /// Whether it leaves for an upstream, so that its hold is charged if nobody learns its end.
    package var isSent: Bool
    /// Why it cannot run now, whoever pays; `nil` if it can.
    package var unavailable: Problem?
    /// Runs it.
    package var run: @Sendable () async throws(Problem) -> Outcome

    /// Creates a call.
    package init(
        hold: Int64,
        guess: Int64,
        life: Duration,
        isSent: Bool,
        unavailable: Problem? = nil,
        run: @escaping @Sendable () async throws(Problem) -> Outcome
    ) {
        self.hold = hold
        self.guess = guess
        self.life = life
        self.isSent = isSent
        self.unavailable = unavailable
        self.run = run
    }
}
